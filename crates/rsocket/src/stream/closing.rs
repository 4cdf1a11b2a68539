//! The end of a connection.

use std::net::Shutdown;

use super::StreamSocket;
use super::core::{StreamPhase, StreamState};
use super::option_state::Linger;
use crate::errno::{Errno, Result};
use crate::protocol::message::StreamMessage;
use crate::service::{self, KeptAlive};

impl StreamSocket {
    /// Ends one direction or both, and waits until everything sent has arrived.
    pub(crate) fn shutdown(&self, how: Shutdown) -> Result<()> {
        let message = {
            // The peer has our reply, or soon will: it must learn of the end as well.
            let mut core = self.shared.surely_until(|core| core.phase != StreamPhase::Accepting)?;
            match core.phase {
                StreamPhase::Fresh => return Err(Errno(libc::ENOTCONN)),
                StreamPhase::Listening => {
                    core.id.destroy();
                    core.ended(StreamPhase::Disconnected, None);
                    None
                }
                StreamPhase::Connected => shut(&mut core, how),
                _ if core.is_opening() => {
                    core.id.destroy();
                    core.ended(StreamPhase::Failed, Some(Errno(libc::ECONNRESET)));
                    None
                }
                _ => None,
            }
        };
        self.shared.bells.ring();
        if let Some(message) = message {
            self.forget_keepalive();
            let mut core = self.shared.surely_until(|core| {
                !core.is_connected() || core.flow.as_ref().is_some_and(|flow| flow.outgoing.has_control())
            })?;
            let sent = core.control(message);
            core.check(sent);
            drop(core);
            drop(self.shared.surely_until(|core| !core.is_connected() || core.is_all_sent())?);
        }
        let core = self.shared.lock();
        if core.phase == StreamPhase::Disconnected && core.flow.is_some() {
            // The peer may have been first.
            let _ = core.id.disconnect();
        }
        self.shared.bells.ring();
        Ok(())
    }

    /// Ends the connection in good order, unless it is to be cut off, and gives everything back.
    pub(crate) fn close(&self) {
        self.forget_keepalive();
        let gracefully = {
            let core = self.shared.lock();
            let cut = core.options.linger == Some(Linger { on: true, seconds: 0 });
            !cut && matches!(core.phase, StreamPhase::Connected | StreamPhase::Accepting)
        };
        if gracefully {
            let _ = self.shutdown(Shutdown::Both);
        }
        self.sender.mapped.clear();
        self.shared.lock().close();
        self.shared.bells.ring();
    }

    pub(crate) fn forget_keepalive(&self) {
        if self.shared.lock().options.keepalive.on {
            let _ = service::stop_keeping_alive(self.number);
        }
    }
}

impl KeptAlive for StreamSocket {
    /// Probes the peer.
    fn keep_alive(&self) {
        let mut core = self.shared.lock();
        if core.is_connected() {
            let sent = core.flow.as_mut().map_or(Ok(()), super::flow::StreamFlow::keep_alive);
            core.check(sent);
        }
    }
}

impl StreamState {
    /// Ends one direction or both. The message for the peer waits for a slot.
    pub(super) fn part(&mut self, how: Shutdown) {
        let is_open = match how {
            Shutdown::Read => self.readable,
            Shutdown::Write => self.writable,
            Shutdown::Both => self.readable || self.writable,
        };
        if is_open && self.is_connected() {
            self.farewell = shut(self, how).or(self.farewell);
        }
    }

    /// Sends the message that part left, if there is a slot for it. Whether there was one.
    pub(super) fn say_farewell(&mut self) -> bool {
        let can_send = self.is_connected() && self.has_control_slot();
        let message = self.farewell.filter(|_| can_send);
        if let Some(message) = message {
            self.farewell = None;
            let sent = self.control(message);
            self.check(sent);
        }
        message.is_some()
    }
}

/// The message that tells the peer.
fn shut(state: &mut StreamState, how: Shutdown) -> Option<StreamMessage> {
    match how {
        Shutdown::Both => (state.readable, state.writable) = (false, false),
        Shutdown::Write => state.writable = false,
        Shutdown::Read => state.readable = false,
    }
    match (state.readable, state.writable) {
        (false, false) => Some(StreamMessage::Disconnect),
        (true, false) => Some(StreamMessage::Shutdown),
        _ => None,
    }
}

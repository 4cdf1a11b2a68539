//! The state of a stream socket, behind its lock.

use std::sync::Arc;

use connect::{Event, EventQueue, Id};
use device::{Completion, Status};

use super::endpoint::StreamEndpoint;
use super::flow::{Meaning, StreamFlow};
use super::option_state::StreamOptions;
use super::waiting_tasks::WaitingTasks;
use crate::errno::{Errno, Result};
use crate::protocol::message::StreamMessage;
use crate::settings::Settings;

/// Completions taken at a time.
const BATCH: usize = 64;
/// Bytes whose copy takes longer than a poll.
const MUCH_BYTES: u32 = 16 << 10;

/// The phase of a stream socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamPhase {
    /// Made, bound perhaps.
    Fresh,
    /// Waiting for connections.
    Listening,
    /// Resolving the destination's device.
    ResolvingAddr,
    /// Resolving the route.
    ResolvingRoute,
    /// Waiting for the peer's reply.
    Connecting,
    /// Waiting until the peer has ours.
    Accepting,
    /// Data flows.
    Connected,
    /// No connection was made.
    Failed,
    /// Ended in good order.
    Disconnected,
    /// Ended by an error.
    Broken,
}

/// The state of a stream socket, which its lock guards.
#[derive(Debug)]
pub(crate) struct StreamState {
    pub(super) id: Id,
    /// Where its events wait. Without it somebody hands them in.
    pub(super) queue: Option<EventQueue>,
    pub(super) phase: StreamPhase,
    /// The peer may still send.
    pub(super) readable: bool,
    /// We may still send.
    pub(super) writable: bool,
    /// The error that SO_ERROR reports next.
    pub(super) error: Option<Errno>,
    pub(super) settings: Settings,
    pub(super) options: StreamOptions,
    pub(super) endpoint: Option<Arc<StreamEndpoint>>,
    pub(super) flow: Option<StreamFlow>,
    /// The connection ended, and the peer had not said that it would.
    pub(super) cut_off: bool,
    /// The message that tells the peer of the end, until there is a slot for it.
    pub(super) farewell: Option<StreamMessage>,
    /// The task that sends waits until everything that was sent is complete.
    pub(super) behind_others: bool,
    pub(super) tasks: WaitingTasks,
    armed: bool,
    taken: Vec<Completion>,
}

impl StreamState {
    pub(super) fn new(id: Id, queue: Option<EventQueue>, settings: Settings, options: StreamOptions) -> StreamState {
        StreamState {
            id,
            queue,
            phase: StreamPhase::Fresh,
            readable: false,
            writable: false,
            error: None,
            settings,
            options,
            endpoint: None,
            flow: None,
            cut_off: false,
            farewell: None,
            behind_others: false,
            tasks: WaitingTasks::default(),
            armed: false,
            taken: Vec::new(),
        }
    }

    /// True while a connection is being made.
    pub(super) fn is_opening(&self) -> bool {
        use StreamPhase::{Accepting, Connecting, ResolvingAddr, ResolvingRoute};
        matches!(self.phase, ResolvingAddr | ResolvingRoute | Connecting | Accepting)
    }

    pub(super) fn is_connected(&self) -> bool {
        self.phase == StreamPhase::Connected
    }

    /// True if there is data to read.
    pub(super) fn has_data(&self) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.incoming.is_ready())
    }

    /// True if there is so much to read that it takes longer than a poll.
    fn has_much(&self) -> bool {
        self.flow.as_ref().is_some_and(|flow| flow.incoming.ready_bytes() >= MUCH_BYTES)
    }

    /// True if data can be sent.
    pub(super) fn can_send_data(&mut self) -> bool {
        self.writable && self.flow.as_mut().is_some_and(StreamFlow::can_send_data)
    }

    /// True if a message can be sent.
    pub(super) fn can_send_message(&mut self) -> bool {
        self.writable && self.flow.as_mut().is_some_and(StreamFlow::can_send)
    }

    /// True if everything that was sent has arrived.
    pub(super) fn is_all_sent(&self) -> bool {
        self.flow.as_ref().is_none_or(|flow| flow.outgoing.is_done())
    }

    /// Data may flow.
    pub(super) fn connected(&mut self) {
        (self.phase, self.readable, self.writable) = (StreamPhase::Connected, true, true);
    }

    /// The connection has ended.
    pub(super) fn ended(&mut self, phase: StreamPhase, error: Option<Errno>) {
        (self.phase, self.readable, self.writable) = (phase, false, false);
        if error.is_some() {
            self.error = error;
        }
    }

    /// Handles all pending completions and events. Returns whether anything has changed.
    pub(super) fn pump(&mut self) -> bool {
        if self.phase == StreamPhase::Listening {
            return false;
        }
        let mut news = self.pump_completions(true);
        while let Some(event) = self.queue.as_ref().and_then(EventQueue::next) {
            // Data that the peer sent before it disconnected is already there.
            self.pump_completions(true);
            self.happened(event);
            news = true;
        }
        self.grant();
        news
    }

    /// Tells the peer of credits, if they are due.
    pub(super) fn grant(&mut self) {
        if !self.is_connected() {
            return;
        }
        let granted = self.flow.as_mut().map_or(Ok(()), StreamFlow::grant);
        self.check(granted);
    }

    /// Asks for an event at the next completion, unless one is pending.
    pub(super) fn arm(&mut self) -> Result<()> {
        if let (Some(endpoint), Some(_), false) = (&self.endpoint, &self.flow, self.armed) {
            endpoint.arm()?;
            self.armed = true;
        }
        Ok(())
    }

    /// Breaks the connection if the device refused a request.
    pub(super) fn check(&mut self, result: Result<()>) {
        if let (Err(error), true) = (result, self.is_connected()) {
            self.ended(StreamPhase::Broken, Some(error));
        }
    }

    /// Handles the completions that are there, without driving the device.
    pub(super) fn collect(&mut self) {
        self.pump_completions(false);
        self.grant();
    }

    /// Handles an event that was handed in.
    pub(super) fn handed(&mut self, event: Event) {
        // Data that the peer sent before it disconnected is already there.
        self.pump_completions(true);
        self.happened(event);
        self.grant();
    }

    fn pump_completions(&mut self, drive: bool) -> bool {
        let (Some(endpoint), Some(_)) = (self.endpoint.clone(), &self.flow) else { return false };
        if drive && endpoint.take_events() {
            self.armed = false;
        }
        let mut news = false;
        while drive || endpoint.has_completions() {
            let count = self.take_completions(&endpoint);
            news |= count > 0;
            if count < BATCH {
                break;
            }
        }
        if drive && news && self.has_much() {
            // The ACK leaves with this poll, before the bytes are copied.
            self.take_completions(&endpoint);
        }
        if news && self.is_connected() {
            let replenished = self.flow.as_mut().map_or(Ok(()), StreamFlow::replenish);
            self.check(replenished);
        }
        news
    }

    /// Polls once, and handles the completions. Returns their number.
    fn take_completions(&mut self, endpoint: &StreamEndpoint) -> usize {
        let mut taken = std::mem::take(&mut self.taken);
        let polled = endpoint.poll(&mut taken, BATCH);
        taken.iter().for_each(|completion| self.completed(completion));
        let count = taken.len();
        taken.clear();
        self.taken = taken;
        self.check(polled.map(drop));
        count
    }

    fn completed(&mut self, completion: &Completion) {
        let Some(flow) = &mut self.flow else { return };
        let meaning = match flow.completed(completion) {
            Ok(meaning) => meaning,
            Err(violation) => {
                log::warn!("rsocket: {violation}");
                return self.ended(StreamPhase::Broken, Some(Errno(libc::EPROTO)));
            }
        };
        if matches!(meaning, Meaning::Heard | Meaning::PeerShut | Meaning::PeerGone)
            && self.phase == StreamPhase::Accepting
        {
            self.heard_before_ready();
        }
        if self.is_connected() {
            self.act(meaning);
        }
    }

    fn act(&mut self, meaning: Meaning) {
        match meaning {
            Meaning::Nothing | Meaning::Heard => {}
            Meaning::PeerShut if self.writable => self.readable = false,
            Meaning::PeerShut | Meaning::PeerGone | Meaning::SaidGoodbye => self.ended(StreamPhase::Disconnected, None),
            Meaning::Failed(status) => self.ended(StreamPhase::Broken, Some(errno_of(status))),
        }
    }

    /// The peer's data came before its last message of the connection manager.
    fn heard_before_ready(&mut self) {
        if let Err(error) = self.id.establish() {
            log::debug!("{error}");
        }
        self.connected();
    }

    /// Sends a control message, if there is a slot for it and the peer still receives.
    pub(super) fn control(&mut self, message: StreamMessage) -> Result<()> {
        let connected = self.is_connected();
        let flow = self.flow.as_mut().filter(|_| connected);
        match flow {
            Some(flow) => {
                if flow.outgoing.take_control() {
                    flow.control(message)
                } else {
                    Ok(())
                }
            }
            None => Ok(()),
        }
    }

    /// The error that no call has reported yet.
    pub(super) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }

    /// The outcome of connecting; an error is reported once.
    pub(super) fn outcome(&mut self) -> Result<()> {
        match self.phase {
            StreamPhase::Failed | StreamPhase::Broken => Err(self.take_error().unwrap_or(Errno(libc::ECONNREFUSED))),
            _ => Ok(()),
        }
    }

    /// The reason for which nothing more can be sent.
    pub(super) fn why_not_writable(&mut self) -> Errno {
        match self.phase {
            StreamPhase::Broken => self.take_error().unwrap_or(Errno(libc::EPIPE)),
            StreamPhase::Disconnected => Errno(libc::ECONNRESET),
            _ => Errno(libc::EPIPE),
        }
    }

    /// The result of reading when no byte is there and none will come.
    pub(super) fn end(&mut self) -> Result<usize> {
        match self.take_error() {
            Some(error) if self.phase == StreamPhase::Broken => Err(error),
            _ => Ok(0),
        }
    }

    /// True if the connection ended otherwise than by the peer's word or ours.
    pub(super) fn has_died(&self) -> bool {
        self.cut_off || self.phase == StreamPhase::Broken
    }

    /// The endpoint, once there are completions to wait for.
    pub(super) fn live_endpoint(&self) -> Option<Arc<StreamEndpoint>> {
        self.endpoint.clone().filter(|_| self.flow.is_some())
    }

    /// Ends the connection immediately.
    pub(super) fn close(&mut self) {
        if let Some(endpoint) = &self.endpoint {
            endpoint.destroy();
        }
        self.id.destroy();
        self.ended(StreamPhase::Disconnected, None);
    }
}

fn errno_of(status: Status) -> Errno {
    Errno(match status {
        Status::RetryExceeded => libc::ETIMEDOUT,
        Status::WorkRequestFlushed => libc::ECONNRESET,
        _ => libc::EIO,
    })
}

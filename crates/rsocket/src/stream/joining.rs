//! The calls that make connections.

use std::net::SocketAddr;

use connect::{Event, EventKind, EventQueue, Id, Param, PortSpace};

use super::StreamSocket;
use super::core::{StreamPhase, StreamState};
use super::option_state::StreamOptions;
use crate::errno::{Errno, Result};
use crate::wait::{self, Bell};

impl StreamSocket {
    /// The next connection. It is the caller's before the peer has our reply; data waits for that.
    pub(crate) fn accept(&self) -> Result<StreamSocket> {
        let bell = Bell::mine()?;
        let _hung = self.shared.bells.hang(&bell);
        loop {
            let patience = {
                let core = self.shared.lock();
                if core.phase != StreamPhase::Listening {
                    return Err(Errno::INVAL);
                }
                core.options.patience(0, core.options.recv_timeout)
            };
            match self.shared.queue.next() {
                Some(event) if event.kind == EventKind::ConnectRequest => match self.welcome(event) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => log::info!("a connection request was refused: {error}"),
                },
                Some(event) => log::debug!("{:?} of a listening socket", event.kind),
                None if patience.is_none() => return Err(Errno::AGAIN),
                None => wait::sleep(&[self.shared.queue.fd()], &bell, patience)?,
            }
        }
    }

    fn welcome(&self, event: Event) -> Result<StreamSocket> {
        let Param::Conn(conn) = event.param else { return Err(Errno(libc::EPROTO)) };
        let queue = EventQueue::new()?;
        event.id.migrate(&queue)?;
        let settings = self.shared.lock().settings;
        let state = StreamState::new(event.id, Some(queue.clone()), settings, StreamOptions::default());
        let stream = StreamSocket::with(queue, state);
        stream.shared.lock().accept(&conn.private_data)?;
        Ok(stream)
    }

    /// Connects. A non-blocking socket continues whenever it is used or polled.
    pub(crate) fn connect(&self, address: SocketAddr) -> Result<()> {
        let patience = {
            let mut core = self.shared.lock();
            match core.phase {
                StreamPhase::Fresh => core.open(address)?,
                StreamPhase::Failed => {
                    core.id = Id::new(&self.shared.queue, PortSpace::Tcp, device::QpType::Rc)?;
                    core.open(address)?;
                }
                StreamPhase::Listening => return Err(Errno(libc::EOPNOTSUPP)),
                _ if core.is_opening() => {
                    core.pump();
                    if core.is_opening() && core.options.nonblocking {
                        return Err(Errno(libc::EALREADY));
                    }
                }
                _ => return Err(Errno(libc::EISCONN)),
            }
            core.options.patience(0, core.options.send_timeout)
        };
        match self.shared.until(patience, |core| !core.is_opening()) {
            Ok(mut core) => core.outcome(),
            Err(Errno::AGAIN) => Err(Errno(libc::EINPROGRESS)),
            Err(error) => Err(error),
        }
    }
}

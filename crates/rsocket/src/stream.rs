//! Stream sockets: reliable connections.
//!
//! ```text
//!  shared                the state behind its lock, and the threads that wait for it
//!    core                the state: phase, options, queue pair
//!    opening             how a connection is made
//!    options · revents   options, and the events for `poll`
//!    flow                the protocol's part: credits, buffers, messages
//!    endpoint            queue pair and memory
//!  sending · mapping     the sending half: turns, pieces, mapped buffers
//!  at_once · source      pieces for a peer on this host; the caller's bytes
//!  receiving             the receiving half
//!  joining · closing     calls that make and end a connection
//!  guard · waiting_tasks the lock, and the tasks that wait for the state
//!  tasks                 calls of tasks, which never wait
//! ```

mod at_once;
mod closing;
mod core;
mod endpoint;
mod flow;
mod guard;
mod joining;
mod mapping;
mod opening;
mod option_state;
mod options;
mod receiving;
mod revents;
mod sending;
mod shared;
mod source;
pub(crate) mod tasks;
mod waiting_tasks;
mod work;

use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use ::connect::{EventQueue, Id, PortSpace};
use device::Mr;

use self::core::{StreamPhase, StreamState};
use self::option_state::StreamOptions;
use self::receiving::StreamReceiver;
use self::sending::StreamSender;
use self::shared::SharedStream;
use crate::errno::{Errno, Result};
use crate::service::{self, KeptAlive};
use crate::settings::Settings;
use crate::wait::Bells;

/// A stream socket.
#[derive(Debug)]
pub(crate) struct StreamSocket {
    /// Names it among the sockets of this process.
    number: u64,
    shared: SharedStream,
    sender: StreamSender,
    receiver: StreamReceiver,
}

impl StreamSocket {
    pub(crate) fn new() -> Result<StreamSocket> {
        let queue = EventQueue::new()?;
        let id = Id::new(&queue, PortSpace::Tcp, device::QpType::Rc)?;
        let state = StreamState::new(id, Some(queue.clone()), Settings::of_new_sockets(), StreamOptions::default());
        Ok(StreamSocket::with(queue, state))
    }

    fn with(queue: EventQueue, state: StreamState) -> StreamSocket {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        StreamSocket {
            number: NUMBERS.fetch_add(1, Relaxed),
            shared: SharedStream::new(queue, state),
            sender: StreamSender::default(),
            receiver: StreamReceiver::default(),
        }
    }

    /// The number of its descriptor: that of its connection events.
    pub(crate) fn fd(&self) -> RawFd {
        self.shared.queue.fd().as_raw_fd()
    }

    pub(crate) fn bind(&self, address: SocketAddr) -> Result<()> {
        Ok(self.shared.lock().id.bind(address)?)
    }

    pub(crate) fn listen(&self, backlog: i32) -> Result<()> {
        let mut core = self.shared.lock();
        match core.phase {
            StreamPhase::Listening => Ok(()),
            StreamPhase::Fresh => {
                core.id.listen(u32::try_from(backlog).unwrap_or(0))?;
                core.phase = StreamPhase::Listening;
                Ok(())
            }
            _ => Err(Errno::INVAL),
        }
    }

    pub(crate) fn local_addr(&self) -> Option<SocketAddr> {
        self.shared.lock().id.local_addr()
    }

    pub(crate) fn peer_addr(&self) -> Result<SocketAddr> {
        let core = self.shared.lock();
        match core.phase {
            StreamPhase::Fresh | StreamPhase::Listening => Err(Errno(libc::ENOTCONN)),
            _ => core.id.peer_addr().ok_or(Errno(libc::ENOTCONN)),
        }
    }

    pub(crate) fn status_flags(&self) -> i32 {
        self.shared.lock().options.status_flags
    }

    pub(crate) fn set_status_flags(&self, flags: i32) {
        let options = &mut self.shared.lock().options;
        (options.status_flags, options.nonblocking) = (flags, flags & libc::O_NONBLOCK != 0);
    }

    /// Sends; fewer bytes than asked if patience ends, or the connection.
    pub(crate) fn send(&self, parts: &[IoSlice<'_>], flags: i32) -> Result<usize> {
        self.sender.send(&self.shared, parts, flags)
    }

    /// Receives the bytes that are there, or all that were asked for with `MSG_WAITALL`. Zero bytes are the end.
    pub(crate) fn recv(&self, parts: &mut [IoSliceMut<'_>], flags: i32) -> Result<usize> {
        self.receiver.recv(&self.shared, parts, flags)
    }

    /// Writes into the memory that the peer has mapped at `offset`. Writes fewer bytes if its mappings,
    /// the patience or the connection end.
    pub(crate) fn write_mapped(&self, bytes: &[u8], offset: u64, flags: i32) -> Result<usize> {
        self.sender.write_mapped(&self.shared, bytes, offset, flags)
    }

    /// The protection domain to register memory in, once there is a connection or one is made.
    pub(crate) fn pd(&self) -> Result<device::Pd> {
        self.shared.lock().endpoint.as_ref().map(|endpoint| endpoint.pd().clone()).ok_or(Errno::INVAL)
    }

    /// Maps registered memory at an offset of the peer's choosing; without one, at its address. The
    /// peer hears of it before the next data.
    pub(crate) fn map(&self, mr: Mr, offset: Option<u64>, writable: bool) -> Result<u64> {
        let entries = self.shared.lock().flow.as_ref().map_or(0, |flow| flow.peer.mappings.len);
        self.sender.mapped.map(mr, offset, writable, entries)
    }

    /// Ends a mapping. When this returns the peer cannot write there.
    pub(crate) fn unmap(&self, addr: u64, len: u64) -> Result<()> {
        self.sender.mapped.unmap(addr, len)
    }

    pub(crate) fn set_option(self: &Arc<Self>, level: i32, name: i32, value: &[u8]) -> Result<()> {
        let keepalive = self.shared.lock().set_option(level, name, value)?;
        match keepalive {
            Some(keepalive) if keepalive.on => {
                let connection: Arc<dyn KeptAlive> = self.clone();
                service::keep_alive(self.number, keepalive.time(), Arc::downgrade(&connection))
            }
            Some(_) => service::stop_keeping_alive(self.number),
            None => Ok(()),
        }
    }

    /// The bytes of the value.
    pub(crate) fn option(&self, level: i32, name: i32) -> Result<Vec<u8>> {
        self.shared.lock().option(level, name)
    }

    /// The events that `poll` would report.
    pub(crate) fn revents(&self, events: i16) -> i16 {
        self.shared.revents(events)
    }

    /// The bells of the threads that poll.
    pub(crate) fn bells(&self) -> &Bells {
        &self.shared.bells
    }

    /// Makes sure that its descriptors tell of news, and gives them to `each`.
    pub(crate) fn arm(&self, each: impl FnMut(RawFd)) -> Result<()> {
        self.shared.arm(each)
    }
}

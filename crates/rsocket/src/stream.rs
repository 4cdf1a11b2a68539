//! Stream sockets: reliable connections.
//!
//! ```text
//!  joining · opening  how a connection comes about   core      the state, behind one lock
//!  sending · receiving · mapping · closing           flow      the protocol's part of it
//!  options                                           endpoint  queue pair and memory
//! ```
//!
//! One lock guards the state and is never held while bytes are copied or anything is waited for.
//! Besides, callers of one direction take turns. A call that needs the peer pumps: it takes all completions
//! and connection events, and then tests its condition again.

mod closing;
mod core;
mod endpoint;
mod flow;
mod joining;
mod mapped;
mod mapping;
mod opening;
mod option_state;
mod options;
mod receiving;
mod sending;
mod work;

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Instant;

use ::connect::{EventQueue, Id, PortSpace};
use parking_lot::{Mutex, MutexGuard};

use self::core::{StreamPhase, StreamState};
use self::mapped::Mapped;
use self::option_state::StreamOptions;
use crate::errno::{Errno, Result};
use crate::settings::{Settings, polling_time};
use crate::wait::{self, Bell, Bells, CallPatience};

/// A stream socket.
#[derive(Debug)]
pub(crate) struct StreamSocket {
    queue: EventQueue,
    core: Mutex<StreamState>,
    bells: Bells,
    sending: Mutex<()>,
    receiving: Mutex<()>,
    mapped: Mutex<Vec<Mapped>>,
}

impl StreamSocket {
    pub(crate) fn new() -> Result<StreamSocket> {
        let queue = EventQueue::new()?;
        let id = Id::new(&queue, PortSpace::Tcp, device::QpType::Rc)?;
        Ok(StreamSocket::with(id, queue, Settings::of_new_sockets()))
    }

    fn with(id: Id, queue: EventQueue, settings: Settings) -> StreamSocket {
        let core = StreamState::new(id, queue.clone(), settings, StreamOptions::default());
        StreamSocket {
            queue,
            core: Mutex::new(core),
            bells: Bells::default(),
            sending: Mutex::default(),
            receiving: Mutex::default(),
            mapped: Mutex::default(),
        }
    }

    /// The number of its descriptor: that of its connection events.
    pub(crate) fn fd(&self) -> RawFd {
        self.queue.fd().as_raw_fd()
    }

    pub(crate) fn bind(&self, address: SocketAddr) -> Result<()> {
        Ok(self.lock().id.bind(address)?)
    }

    pub(crate) fn listen(&self, backlog: i32) -> Result<()> {
        let mut core = self.lock();
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
        self.lock().id.local_addr()
    }

    pub(crate) fn peer_addr(&self) -> Result<SocketAddr> {
        let core = self.lock();
        match core.phase {
            StreamPhase::Fresh | StreamPhase::Listening => Err(Errno(libc::ENOTCONN)),
            _ => core.id.peer_addr().ok_or(Errno(libc::ENOTCONN)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.core.lock()
    }

    /// Pumps, and wakes the waiting threads.
    fn pump(&self, core: &mut StreamState) {
        if core.pump() {
            self.bells.ring();
        }
    }

    /// The state, as soon as `test` holds.
    ///
    /// # Errors
    /// `EAGAIN` when patience ends, `EINTR` after a signal.
    fn until(
        &self,
        patience: CallPatience,
        test: impl Fn(&mut StreamState) -> bool,
    ) -> Result<MutexGuard<'_, StreamState>> {
        let start = Instant::now();
        loop {
            let mut core = self.lock();
            self.pump(&mut core);
            if test(&mut core) {
                return Ok(core);
            }
            if patience.is_none() {
                return Err(Errno::AGAIN);
            }
            if start.elapsed() >= polling_time() {
                break;
            }
            drop(core);
            std::hint::spin_loop();
        }
        self.asleep_until(patience, test)
    }

    fn asleep_until(
        &self,
        patience: CallPatience,
        test: impl Fn(&mut StreamState) -> bool,
    ) -> Result<MutexGuard<'_, StreamState>> {
        let bell = Bell::mine()?;
        let _hung = self.bells.hang(&bell);
        loop {
            let mut core = self.lock();
            self.pump(&mut core);
            if test(&mut core) {
                return Ok(core);
            }
            core.arm()?;
            let endpoint = core.endpoint.clone();
            drop(core);
            match &endpoint {
                Some(endpoint) => wait::sleep(&[self.queue.fd(), endpoint.channel().fd()], &bell, patience)?,
                None => wait::sleep(&[self.queue.fd()], &bell, patience)?,
            }
        }
    }

    /// As [`until`](Stream::until) without end, whatever signals come.
    fn surely_until(&self, test: impl Fn(&mut StreamState) -> bool) -> Result<MutexGuard<'_, StreamState>> {
        loop {
            match self.until(CallPatience::ENDLESS, &test) {
                Err(Errno(libc::EINTR)) => {}
                other => return other,
            }
        }
    }

    /// The events that `poll` would report.
    pub(crate) fn revents(&self, events: i16) -> i16 {
        let mut core = self.lock();
        self.pump(&mut core);
        core.revents(events, self.queue.fd())
    }

    /// Hangs up a bell for who polls.
    pub(crate) fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Makes sure that its descriptors tell of news, and gives them to `each`.
    pub(crate) fn arm(&self, mut each: impl FnMut(RawFd)) -> Result<()> {
        let mut core = self.lock();
        core.arm()?;
        each(self.fd());
        if let (Some(endpoint), Some(_)) = (&core.endpoint, &core.flow) {
            each(endpoint.channel().fd().as_raw_fd());
        }
        Ok(())
    }

    pub(crate) fn status_flags(&self) -> i32 {
        self.lock().options.status_flags
    }

    pub(crate) fn set_status_flags(&self, flags: i32) {
        let options = &mut self.lock().options;
        (options.status_flags, options.nonblocking) = (flags, flags & libc::O_NONBLOCK != 0);
    }
}

impl StreamOptions {
    /// The time that a call may wait.
    fn patience(&self, flags: i32, timeout: Option<std::time::Duration>) -> CallPatience {
        match timeout {
            _ if self.nonblocking || flags & libc::MSG_DONTWAIT != 0 => CallPatience::NONE,
            Some(timeout) => CallPatience::of(timeout),
            None => CallPatience::ENDLESS,
        }
    }
}

impl StreamState {
    fn revents(&mut self, events: i16, queue: BorrowedFd<'_>) -> i16 {
        let (read, write) = (events & (libc::POLLIN | libc::POLLRDNORM), events & (libc::POLLOUT | libc::POLLWRNORM));
        match self.phase {
            StreamPhase::Fresh => 0,
            StreamPhase::Listening => {
                if has_request(queue) {
                    read
                } else {
                    0
                }
            }
            StreamPhase::Failed => read | write | libc::POLLERR,
            _ if self.is_opening() => 0,
            _ => {
                let mut found = 0;
                if self.has_data() || !self.readable {
                    found |= read | if self.readable { 0 } else { events & libc::POLLRDHUP };
                }
                if self.can_send_data() {
                    found |= write;
                }
                match self.phase {
                    // As with sockets of the system, the remaining data is read first.
                    StreamPhase::Disconnected if self.has_data() && read != 0 => found,
                    StreamPhase::Disconnected => found | libc::POLLHUP,
                    StreamPhase::Broken => found | libc::POLLERR,
                    _ => found,
                }
            }
        }
    }
}

fn has_request(queue: BorrowedFd<'_>) -> bool {
    let mut fds = [rustix::event::PollFd::from_borrowed_fd(queue, rustix::event::PollFlags::IN)];
    matches!(rustix::event::poll(&mut fds, Some(&rustix::event::Timespec::default())), Ok(1))
}

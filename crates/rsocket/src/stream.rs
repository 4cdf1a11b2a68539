//! Stream sockets: reliable connections.
//!
//! ```text
//!  opening    how a connection comes about           core      the state, behind one lock
//!  sending · receiving · mapping · closing           flow      the protocol's part of it
//!  options                                           endpoint  queue pair and memory
//! ```
//!
//! One lock guards the state and is never held while bytes are copied or anything is waited for.
//! Besides, callers of one direction take turns. Whoever needs the peer pumps: takes completions
//! and connection events, whatever they are about, and looks whether that helped.

mod closing;
mod core;
mod endpoint;
mod flow;
mod mapping;
mod opening;
pub(crate) mod options;
mod receiving;
mod sending;
mod work;

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Instant;

use ::connect::{Event, EventKind, EventQueue, Id, Param, PortSpace};
use parking_lot::{Mutex, MutexGuard};

use self::core::{Core, Phase};
use self::mapping::Mapped;
use self::options::Options;
use crate::errno::{Errno, Result};
use crate::settings::{Settings, polling_time};
use crate::wait::{self, Bell, Bells, Patience};

/// A stream socket.
#[derive(Debug)]
pub(crate) struct Stream {
    queue: EventQueue,
    core: Mutex<Core>,
    bells: Bells,
    sending: Mutex<()>,
    receiving: Mutex<()>,
    mapped: Mutex<Vec<Mapped>>,
}

impl Stream {
    pub(crate) fn new() -> Result<Stream> {
        let queue = EventQueue::new()?;
        let id = Id::new(&queue, PortSpace::Tcp, device::QpType::Rc)?;
        Ok(Stream::with(id, queue, Settings::of_new_sockets()))
    }

    fn with(id: Id, queue: EventQueue, settings: Settings) -> Stream {
        let core = Core::new(id, queue.clone(), settings, Options::default());
        Stream {
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
            Phase::Listening => Ok(()),
            Phase::Fresh => {
                core.id.listen(u32::try_from(backlog).unwrap_or(0))?;
                core.phase = Phase::Listening;
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
            Phase::Fresh | Phase::Listening => Err(Errno(libc::ENOTCONN)),
            _ => core.id.peer_addr().ok_or(Errno(libc::ENOTCONN)),
        }
    }

    /// The next connection. It is the caller's before the peer has our reply; data waits for that.
    pub(crate) fn accept(&self) -> Result<Stream> {
        let bell = Bell::mine()?;
        let _hung = self.bells.hang(&bell);
        loop {
            let patience = {
                let core = self.lock();
                if core.phase != Phase::Listening {
                    return Err(Errno::INVAL);
                }
                core.options.patience(0, core.options.recv_timeout)
            };
            match self.queue.next() {
                Some(event) if event.kind == EventKind::ConnectRequest => match self.welcome(event) {
                    Ok(stream) => return Ok(stream),
                    Err(error) => log::info!("a connection request was refused: {error}"),
                },
                Some(event) => log::debug!("{:?} of a listening socket", event.kind),
                None if patience.is_none() => return Err(Errno::AGAIN),
                None => wait::sleep(&[self.queue.fd()], &bell, patience)?,
            }
        }
    }

    fn welcome(&self, event: Event) -> Result<Stream> {
        let Param::Conn(conn) = event.param else { return Err(Errno(libc::EPROTO)) };
        let queue = EventQueue::new()?;
        event.id.migrate(&queue)?;
        let stream = Stream::with(event.id, queue, self.lock().settings);
        stream.lock().accept(&conn.private_data)?;
        Ok(stream)
    }

    /// Connects. A non-blocking socket goes on by itself, whenever it is used or polled.
    pub(crate) fn connect(&self, address: SocketAddr) -> Result<()> {
        let patience = {
            let mut core = self.lock();
            match core.phase {
                Phase::Fresh => core.open(address)?,
                Phase::Failed => {
                    core.id = Id::new(&self.queue, PortSpace::Tcp, device::QpType::Rc)?;
                    core.open(address)?;
                }
                Phase::Listening => return Err(Errno(libc::EOPNOTSUPP)),
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
        match self.until(patience, |core| !core.is_opening()) {
            Ok(mut core) => core.outcome(),
            Err(Errno::AGAIN) => Err(Errno(libc::EINPROGRESS)),
            Err(error) => Err(error),
        }
    }

    /// Waits until it is connected, for calls on data.
    fn ready(&self, patience: Patience) -> Result<()> {
        if self.lock().is_connected() {
            return Ok(());
        }
        let mut core = self.until(patience, |core| !core.is_opening())?;
        match core.phase {
            Phase::Fresh | Phase::Listening => Err(Errno(libc::ENOTCONN)),
            Phase::Failed => core.outcome(),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock()
    }

    /// Pumps, and tells those who wait.
    fn pump(&self, core: &mut Core) {
        if core.pump() {
            self.bells.ring();
        }
    }

    /// The state, as soon as `test` holds.
    ///
    /// # Errors
    /// `EAGAIN` when patience ends, `EINTR` after a signal.
    fn until(&self, patience: Patience, test: impl Fn(&mut Core) -> bool) -> Result<MutexGuard<'_, Core>> {
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

    fn asleep_until(&self, patience: Patience, test: impl Fn(&mut Core) -> bool) -> Result<MutexGuard<'_, Core>> {
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
    fn surely_until(&self, test: impl Fn(&mut Core) -> bool) -> Result<MutexGuard<'_, Core>> {
        loop {
            match self.until(Patience::ENDLESS, &test) {
                Err(Errno(libc::EINTR)) => {}
                other => return other,
            }
        }
    }

    /// What `poll` would tell of it now.
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

impl Options {
    /// How long a call may wait.
    fn patience(&self, flags: i32, timeout: Option<std::time::Duration>) -> Patience {
        match timeout {
            _ if self.nonblocking || flags & libc::MSG_DONTWAIT != 0 => Patience::NONE,
            Some(timeout) => Patience::of(timeout),
            None => Patience::ENDLESS,
        }
    }
}

impl Core {
    /// What came of connecting; an error is told once.
    fn outcome(&mut self) -> Result<()> {
        match self.phase {
            Phase::Failed | Phase::Broken => Err(self.take_error().unwrap_or(Errno(libc::ECONNREFUSED))),
            _ => Ok(()),
        }
    }

    fn revents(&mut self, events: i16, queue: BorrowedFd<'_>) -> i16 {
        let (read, write) = (events & (libc::POLLIN | libc::POLLRDNORM), events & (libc::POLLOUT | libc::POLLWRNORM));
        match self.phase {
            Phase::Fresh => 0,
            Phase::Listening => {
                if has_request(queue) {
                    read
                } else {
                    0
                }
            }
            Phase::Failed => read | write | libc::POLLERR,
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
                    // As of a socket of the system's: first what is there is read.
                    Phase::Disconnected if self.has_data() && read != 0 => found,
                    Phase::Disconnected => found | libc::POLLHUP,
                    Phase::Broken => found | libc::POLLERR,
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

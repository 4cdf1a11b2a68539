//! The thread behind the sockets: it answers inquiries that come over UDP, and sends messages that
//! keep connections alive. It runs while sockets need it.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};

use crate::errno::Result;

/// A datagram socket, which answers inquiries.
pub(crate) trait InquiryResponder: std::fmt::Debug + Send + Sync {
    /// The socket that inquiries come to.
    fn udp(&self) -> BorrowedFd<'_>;
    /// Answers the inquiries that have come.
    fn answer(&self);
}

/// A connection that needs a message from time to time.
pub(crate) trait KeptAlive: std::fmt::Debug + Send + Sync {
    /// Sends the message.
    fn keep_alive(&self);
}

#[derive(Debug)]
struct ServiceState {
    /// Wakes the thread; none while there is no thread.
    wake: Option<Arc<OwnedFd>>,
    /// The process of the thread: a forked child has none.
    process: u32,
    datagrams: Vec<Arc<dyn InquiryResponder>>,
    alive: Vec<KeepaliveTimer>,
}

/// A connection to be kept alive.
#[derive(Debug)]
struct KeepaliveTimer {
    /// Names the socket.
    key: u64,
    connection: Weak<dyn KeptAlive>,
    every: Duration,
    next: Instant,
}

static SERVICE: Mutex<ServiceState> =
    Mutex::new(ServiceState { wake: None, process: 0, datagrams: Vec::new(), alive: Vec::new() });

/// The thread has ended.
static ENDED: Condvar = Condvar::new();

/// Waits until the thread has ended and closed its descriptors, if no socket needs it.
pub(crate) fn wait_for_its_end() {
    let mut service = SERVICE.lock();
    while service.wake.is_some() && service.is_idle() && service.process == std::process::id() {
        ENDED.wait(&mut service);
    }
}

/// Answers inquiries to a datagram socket.
pub(crate) fn answer_for(socket: Arc<dyn InquiryResponder>) -> Result<()> {
    change(|service| service.datagrams.push(socket))
}

/// Stops answering inquiries to a datagram socket.
pub(crate) fn stop_answering(socket: RawFd) {
    let _ = change(|service| service.datagrams.retain(|other| other.udp().as_raw_fd() != socket));
}

/// Keeps the connection of a stream socket alive, with a message per interval.
pub(crate) fn keep_alive(key: u64, every: Duration, connection: Weak<dyn KeptAlive>) -> Result<()> {
    let next = Instant::now() + every;
    change(|service| {
        service.alive.retain(|alive| alive.key != key);
        service.alive.push(KeepaliveTimer { key, connection, every, next });
    })
}

/// Stops the messages of a stream socket.
pub(crate) fn stop_keeping_alive(key: u64) -> Result<()> {
    change(|service| service.alive.retain(|alive| alive.key != key))
}

fn change(change: impl FnOnce(&mut ServiceState)) -> Result<()> {
    let mut service = SERVICE.lock();
    let process = std::process::id();
    if service.process != process {
        *service = ServiceState { wake: None, process, datagrams: Vec::new(), alive: Vec::new() };
    }
    change(&mut service);
    match &service.wake {
        Some(wake) => {
            let _ = rustix::io::write(wake, &1u64.to_ne_bytes());
        }
        None if service.is_idle() => {}
        None => {
            let wake = Arc::new(guest::high(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?));
            let its = Arc::clone(&wake);
            guest::spawn("longarm-rsocket", move || run(its))?;
            service.wake = Some(wake);
        }
    }
    Ok(())
}

impl ServiceState {
    fn is_idle(&self) -> bool {
        self.datagrams.is_empty() && self.alive.is_empty()
    }

    /// The connections that are due, and the time at which the next one is.
    fn due(&mut self, now: Instant) -> (Vec<Weak<dyn KeptAlive>>, Option<Instant>) {
        let mut due = Vec::new();
        for alive in self.alive.iter_mut().filter(|alive| alive.next <= now) {
            due.push(alive.connection.clone());
            alive.next = now + alive.every;
        }
        (due, self.alive.iter().map(|alive| alive.next).min())
    }
}

fn run(wake: Arc<OwnedFd>) {
    loop {
        let now = Instant::now();
        let (datagrams, due, next) = {
            let mut service = SERVICE.lock();
            if service.is_idle() {
                service.wake = None;
                drop(wake);
                ENDED.notify_all();
                return;
            }
            let (due, next) = service.due(now);
            (service.datagrams.clone(), due, next)
        };
        due.iter().filter_map(Weak::upgrade).for_each(|connection| connection.keep_alive());
        serve(&wake, &datagrams, next.map(|next| next.saturating_duration_since(now)));
    }
}

/// Waits, and answers the inquiries that have come.
fn serve(wake: &OwnedFd, datagrams: &[Arc<dyn InquiryResponder>], patience: Option<Duration>) {
    let mut fds = vec![PollFd::new(wake, PollFlags::IN)];
    fds.extend(datagrams.iter().map(|socket| PollFd::from_borrowed_fd(socket.udp(), PollFlags::IN)));
    let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
    if rustix::event::poll(&mut fds, timeout.as_ref()).is_err() {
        return;
    }
    let readable: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
    if readable[0] {
        let _ = rustix::io::read(wake, &mut [0; 8]);
    }
    datagrams.iter().zip(&readable[1..]).filter(|(_, readable)| **readable).for_each(|(socket, _)| socket.answer());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nothing;

    impl KeptAlive for Nothing {
        fn keep_alive(&self) {}
    }

    #[test]
    fn each_interval_is_due_once() {
        let now = Instant::now();
        let every = Duration::from_secs(5);
        let connection: Arc<dyn KeptAlive> = Arc::new(Nothing);
        let timer = |key, next| KeepaliveTimer { key, connection: Arc::downgrade(&connection), every, next };
        let alive = vec![timer(7, now), timer(8, now + every * 2)];
        let mut service = ServiceState { wake: None, process: 0, datagrams: Vec::new(), alive };
        let mut due = |now| {
            let (due, next) = service.due(now);
            (due.len(), next)
        };
        assert_eq!(due(now), (1, Some(now + every)));
        assert_eq!(due(now), (0, Some(now + every)));
        assert_eq!(due(now + every * 2).0, 2);
    }
}

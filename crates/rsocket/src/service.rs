//! The thread behind the sockets: it answers inquiries that come over UDP, and sends what keeps
//! connections alive. It runs while there is anything of the kind.

use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd};

use crate::datagram::Datagram;
use crate::errno::Result;
use crate::table::{self, Socket};

#[derive(Debug)]
struct Service {
    /// Wakes the thread; none while there is no thread.
    wake: Option<Arc<OwnedFd>>,
    /// Whose thread it is: a forked child has none.
    process: u32,
    datagrams: Vec<Arc<Datagram>>,
    alive: Vec<Alive>,
}

/// A connection to be kept alive.
#[derive(Debug)]
struct Alive {
    fd: RawFd,
    every: Duration,
    next: Instant,
}

static SERVICE: Mutex<Service> =
    Mutex::new(Service { wake: None, process: 0, datagrams: Vec::new(), alive: Vec::new() });

/// The thread has ended.
static ENDED: Condvar = Condvar::new();

/// Waits until the thread has closed what it had, if nothing is left for it to do.
pub(crate) fn wait_for_its_end() {
    let mut service = SERVICE.lock();
    while service.wake.is_some() && service.is_idle() && service.process == std::process::id() {
        ENDED.wait(&mut service);
    }
}

/// Answers for a datagram socket from now on.
pub(crate) fn answer_for(socket: &Arc<Datagram>) -> Result<()> {
    change(|service| service.datagrams.push(Arc::clone(socket)))
}

/// Does so no more.
pub(crate) fn answer_no_more(socket: &Datagram) {
    let _ = change(|service| service.datagrams.retain(|other| !std::ptr::eq(&**other, socket)));
}

/// Keeps the connection of a stream socket alive; time and again.
pub(crate) fn keep_alive(fd: RawFd, every: Duration) -> Result<()> {
    let next = Instant::now() + every;
    change(|service| {
        service.alive.retain(|alive| alive.fd != fd);
        service.alive.push(Alive { fd, every, next });
    })
}

/// Does so no more.
pub(crate) fn keep_alive_no_more(fd: RawFd) -> Result<()> {
    change(|service| service.alive.retain(|alive| alive.fd != fd))
}

fn change(change: impl FnOnce(&mut Service)) -> Result<()> {
    let mut service = SERVICE.lock();
    let process = std::process::id();
    if service.process != process {
        *service = Service { wake: None, process, datagrams: Vec::new(), alive: Vec::new() };
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

impl Service {
    fn is_idle(&self) -> bool {
        self.datagrams.is_empty() && self.alive.is_empty()
    }

    /// The connections whose time has come, and when the next one's will.
    fn due(&mut self, now: Instant) -> (Vec<RawFd>, Option<Instant>) {
        let mut due = Vec::new();
        for alive in self.alive.iter_mut().filter(|alive| alive.next <= now) {
            due.push(alive.fd);
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
        due.into_iter().for_each(keep_one_alive);
        serve(&wake, &datagrams, next.map(|next| next.saturating_duration_since(now)));
    }
}

fn keep_one_alive(fd: RawFd) {
    if let Ok(Socket::Stream(stream)) = table::find(fd) {
        stream.keep_alive();
    }
}

/// Waits, and answers what has come.
fn serve(wake: &OwnedFd, datagrams: &[Arc<Datagram>], patience: Option<Duration>) {
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

    #[test]
    fn times_come_again() {
        let now = Instant::now();
        let every = Duration::from_secs(5);
        let alive = vec![Alive { fd: 7, every, next: now }, Alive { fd: 8, every, next: now + every * 2 }];
        let mut service = Service { wake: None, process: 0, datagrams: Vec::new(), alive };
        assert_eq!(service.due(now), (vec![7], Some(now + every)));
        assert_eq!(service.due(now), (vec![], Some(now + every)));
        assert_eq!(service.due(now + every * 2).0, [7, 8]);
    }
}

//! The rendezvous socket, which accepts clients, and the lock that makes this hub the only one.

use super::epoll_set::{EpollSet, EventSource};
use super::error::HubError;
use crate::rendezvous::{HubLock, Rendezvous, RendezvousError};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Most connections accepted for one event.
const MAX_ACCEPTS: usize = 32;

/// The time without accepting connections after descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The listening socket with its lock.
#[derive(Debug)]
pub(super) struct HubListener {
    rendezvous: Rendezvous,
    lock: HubLock,
    socket: OwnedFd,
    inode: Option<u64>,
    /// The time to watch the socket again, while it is not watched.
    resume_at: Option<Instant>,
}

impl HubListener {
    /// Listens and watches the socket.
    pub(super) fn new(rendezvous: Rendezvous, lock: HubLock, epoll: &EpollSet) -> Result<HubListener, HubError> {
        let socket = rendezvous.listen()?;
        epoll.add(&socket, EventSource::Listener).map_err(HubError::system("wait for clients"))?;
        Ok(HubListener { inode: rendezvous.socket_inode(), rendezvous, lock, socket, resume_at: None })
    }

    /// Accepts a limited number of the connections that wait.
    pub(super) fn accept(&mut self, epoll: &EpollSet) -> Vec<OwnedFd> {
        let mut accepted = Vec::new();
        for _ in 0..MAX_ACCEPTS {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.socket, flags) {
                Ok(socket) => accepted.push(socket),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => {
                    self.pause(error, epoll);
                    break;
                }
            }
        }
        accepted
    }

    /// Stops watching the socket for a while: without descriptors the hub would try without end.
    fn pause(&mut self, error: Errno, epoll: &EpollSet) {
        log::warn!("cannot accept a connection: {error}");
        if epoll.remove(&self.socket).is_ok() {
            self.resume_at = Some(Instant::now() + ACCEPT_PAUSE);
        }
    }

    /// The time of the next [`resume`](HubListener::resume).
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.resume_at
    }

    /// Watches the socket again, if it is time.
    pub(super) fn resume(&mut self, now: Instant, epoll: &EpollSet) -> Result<(), HubError> {
        if self.resume_at.is_some_and(|at| now >= at) {
            self.resume_at = None;
            epoll.add(&self.socket, EventSource::Listener).map_err(HubError::system("accept clients"))?;
        }
        Ok(())
    }

    /// Makes the socket file again if a program that cleans up old files has removed it, or the whole directory.
    pub(super) fn restore_if_removed(&mut self) {
        if self.rendezvous.socket_inode() == self.inode {
            return;
        }
        log::warn!("{} was removed; the hub makes it again", self.rendezvous.socket_path().display());
        match self.listen_again() {
            Ok(true) => {}
            Ok(false) => log::error!("another process has the lock"),
            Err(error) => log::error!("{error}"),
        }
    }

    /// Returns whether it worked; it does not if another process has the lock.
    fn listen_again(&mut self) -> Result<bool, RendezvousError> {
        let rendezvous = self.rendezvous.location().open()?;
        if !rendezvous.same_lock_file(&self.lock) {
            let Some(lock) = rendezvous.lock()? else { return Ok(false) };
            self.lock = lock;
        }
        self.socket = rendezvous.listen()?;
        self.inode = rendezvous.socket_inode();
        self.rendezvous = rendezvous;
        // `resume` watches the new socket.
        self.resume_at = Some(Instant::now());
        Ok(true)
    }

    /// Removes the hub's files, then releases the lock.
    pub(super) fn close(self) {
        self.rendezvous.leave(self.lock);
    }
}

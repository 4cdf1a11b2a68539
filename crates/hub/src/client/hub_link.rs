//! A session's connection: there, being looked for, or given up; and one descriptor to watch
//! for all of that.

use super::approach::Approach;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How a session is connected.
#[derive(Debug)]
pub(super) enum Link {
    /// The hub knows this process.
    Attached(OwnedFd),
    /// Looking for a hub.
    Seeking(Box<Approach>),
    /// No hub will have this process.
    Over,
}

impl Link {
    /// What to watch, if there is something.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Link::Attached(socket) => Some(socket.as_fd()),
            Link::Seeking(approach) => approach.poll_fd(),
            Link::Over => None,
        }
    }
}

/// A link behind an epoll instance, which is the same for all its life.
#[derive(Debug)]
pub(super) struct WatchedLink {
    epoll: OwnedFd,
    link: Link,
    /// Whether to watch for room to send, too.
    room: bool,
}

impl WatchedLink {
    pub(super) fn new(link: Link) -> io::Result<WatchedLink> {
        let epoll = guest::high(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let mut watched = WatchedLink { epoll, link, room: false };
        watched.watch()?;
        Ok(watched)
    }

    pub(super) fn get(&self) -> &Link {
        &self.link
    }

    /// Changes the link by `step`, which gets the old one and says what the new one is.
    ///
    /// A descriptor must be taken from the epoll instance before it is closed: if a forked
    /// child has a copy it would stay there, and seem readable for ever.
    pub(super) fn change(&mut self, step: impl FnOnce(Link) -> Link) {
        if let Some(fd) = self.link.fd() {
            // It may be there not at all if watching it failed.
            let _ = epoll::delete(&self.epoll, fd);
        }
        self.link = step(std::mem::replace(&mut self.link, Link::Over));
        if let Err(error) = self.watch() {
            log::warn!("cannot watch the connection to the hub: {error}");
        }
    }

    /// Whether to watch an attached link for room to send, too. A changed link is not.
    pub(super) fn want_room(&mut self, wanted: bool) {
        let Link::Attached(socket) = &self.link else { return };
        if self.room == wanted {
            return;
        }
        let flags = if wanted { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        match epoll::modify(&self.epoll, socket, EventData::new_u64(0), flags) {
            Ok(()) => self.room = wanted,
            Err(error) => log::warn!("cannot watch the connection to the hub: {error}"),
        }
    }

    /// Readable when the link has something to do.
    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn watch(&mut self) -> io::Result<()> {
        self.room = false;
        match self.link.fd() {
            Some(fd) => Ok(epoll::add(&self.epoll, fd, EventData::new_u64(0), EventFlags::IN)?),
            None => Ok(()),
        }
    }
}

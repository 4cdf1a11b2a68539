//! The socket of a session, or the attempt to connect one; behind one descriptor that never changes.

use super::connector::HubConnector;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The state of a session's connection.
#[derive(Debug)]
pub(super) enum LinkState {
    /// The hub knows this process by this socket.
    Attached(OwnedFd),
    /// An attempt to connect.
    Connecting(Box<HubConnector>),
    /// No hub takes this process back.
    Over,
}

impl LinkState {
    /// The descriptor to watch, if there is one.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            LinkState::Attached(socket) => Some(socket.as_fd()),
            LinkState::Connecting(connector) => connector.poll_fd(),
            LinkState::Over => None,
        }
    }
}

/// A connection behind an epoll instance.
#[derive(Debug)]
pub(super) struct HubLink {
    epoll: OwnedFd,
    state: LinkState,
    /// Whether to watch for room to send, too.
    room: bool,
}

impl HubLink {
    pub(super) fn new(state: LinkState) -> io::Result<HubLink> {
        let epoll = guest::high(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let mut watched = HubLink { epoll, state, room: false };
        watched.watch()?;
        Ok(watched)
    }

    pub(super) fn get(&self) -> &LinkState {
        &self.state
    }

    /// Changes the state: `step` gets the old one and returns the new one.
    ///
    /// A descriptor must be removed from the epoll instance before it is closed. If a forked
    /// child has a copy, it would stay there and be readable without end.
    pub(super) fn change(&mut self, step: impl FnOnce(LinkState) -> LinkState) {
        if let Some(fd) = self.state.fd() {
            // It is not there if watching it has failed.
            let _ = epoll::delete(&self.epoll, fd);
        }
        self.state = step(std::mem::replace(&mut self.state, LinkState::Over));
        if let Err(error) = self.watch() {
            log::warn!("cannot watch the connection to the hub: {error}");
        }
    }

    /// Whether to watch an attached socket for room to send, too. Any change of state ends that.
    pub(super) fn want_room(&mut self, wanted: bool) {
        let LinkState::Attached(socket) = &self.state else { return };
        if self.room == wanted {
            return;
        }
        let flags = if wanted { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        match epoll::modify(&self.epoll, socket, EventData::new_u64(0), flags) {
            Ok(()) => self.room = wanted,
            Err(error) => log::warn!("cannot watch the connection to the hub: {error}"),
        }
    }

    /// Readable when there is something to do.
    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    fn watch(&mut self) -> io::Result<()> {
        self.room = false;
        match self.state.fd() {
            Some(fd) => Ok(epoll::add(&self.epoll, fd, EventData::new_u64(0), EventFlags::IN)?),
            None => Ok(()),
        }
    }
}

//! The epoll instance of the hub's one thread, and the sources of its events.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The source of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventSource {
    /// The rendezvous socket.
    Listener,
    /// Slot 0.
    Slot0,
    /// The network interfaces.
    Devices,
    /// A socket of QP1: the network could not deliver a MAD.
    Undelivered,
    /// A client's connection.
    Connection(u64),
    /// The end of a client's process.
    Process(u64),
}

impl EventSource {
    const FIRST_CLIENT: u64 = 8;

    fn encode(self) -> u64 {
        match self {
            EventSource::Listener => 0,
            EventSource::Slot0 => 1,
            EventSource::Devices => 2,
            EventSource::Undelivered => 3,
            EventSource::Connection(id) => EventSource::FIRST_CLIENT + id * 2,
            EventSource::Process(id) => EventSource::FIRST_CLIENT + id * 2 + 1,
        }
    }

    fn decode(code: u64) -> EventSource {
        match code {
            0 => EventSource::Listener,
            1 => EventSource::Slot0,
            2 => EventSource::Devices,
            3 => EventSource::Undelivered,
            code if code % 2 == 0 => EventSource::Connection((code - EventSource::FIRST_CLIENT) / 2),
            code => EventSource::Process((code - EventSource::FIRST_CLIENT) / 2),
        }
    }
}

/// An epoll instance. A descriptor leaves it when its last copy is closed.
#[derive(Debug)]
pub(super) struct EpollSet {
    epoll: OwnedFd,
}

impl EpollSet {
    pub(super) fn new() -> io::Result<EpollSet> {
        Ok(EpollSet { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches for input.
    pub(super) fn add(&self, fd: impl AsFd, source: EventSource) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(source.encode()), EventFlags::IN)?)
    }

    /// Watches for errors only, which epoll always reports. Adding a descriptor twice does nothing.
    pub(super) fn add_for_errors(&self, fd: impl AsFd, source: EventSource) -> io::Result<()> {
        match epoll::add(&self.epoll, fd, EventData::new_u64(source.encode()), EventFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Watches for room to write if `output`, else for input. Never for both: the hub would be woken by
    /// input that it does not read yet.
    pub(super) fn change(&self, fd: impl AsFd, source: EventSource, output: bool) -> io::Result<()> {
        let flags = if output { EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(source.encode()), flags)?)
    }

    /// Stops watching a descriptor, of which there may be other copies.
    pub(super) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits for events, at most for `timeout`.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<EventSource>> {
        let mut space = [const { MaybeUninit::uninit() }; 64];
        match guest::epoll_wait(&self.epoll, &mut space, timeout) {
            Ok(events) => Ok(events.iter().map(|event| EventSource::decode(event.data.u64())).collect()),
            Err(Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_survive_their_codes() {
        let clients = [0, 1, 7, 1 << 40].map(|id| [EventSource::Connection(id), EventSource::Process(id)]);
        let all = [EventSource::Listener, EventSource::Slot0, EventSource::Devices, EventSource::Undelivered];
        for source in all.into_iter().chain(clients.into_iter().flatten()) {
            assert_eq!(EventSource::decode(source.encode()), source);
        }
    }

    #[test]
    fn input_is_an_event() {
        let epoll = EpollSet::new().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        epoll.add(&reader, EventSource::Process(3)).unwrap();
        assert_eq!(epoll.wait(Some(Duration::ZERO)).unwrap(), []);
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(epoll.wait(None).unwrap(), [EventSource::Process(3)]);
        drop(reader);
        assert_eq!(epoll.wait(Some(Duration::ZERO)).unwrap(), []);
    }
}

//! What the hub's one thread waits for.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Where something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The rendezvous socket.
    Listener,
    /// Slot 0.
    Stray,
    /// The network interfaces.
    Devices,
    /// A MAD could not be delivered.
    Undelivered,
    /// A client's connection.
    Connection(u64),
    /// The end of a client's process.
    Process(u64),
}

impl Source {
    const FIRST_CLIENT: u64 = 8;

    fn encode(self) -> u64 {
        match self {
            Source::Listener => 0,
            Source::Stray => 1,
            Source::Devices => 2,
            Source::Undelivered => 3,
            Source::Connection(id) => Source::FIRST_CLIENT + id * 2,
            Source::Process(id) => Source::FIRST_CLIENT + id * 2 + 1,
        }
    }

    fn decode(code: u64) -> Source {
        match code {
            0 => Source::Listener,
            1 => Source::Stray,
            2 => Source::Devices,
            3 => Source::Undelivered,
            code if code % 2 == 0 => Source::Connection((code - Source::FIRST_CLIENT) / 2),
            code => Source::Process((code - Source::FIRST_CLIENT) / 2),
        }
    }
}

/// An epoll instance. A descriptor leaves it when it is closed.
#[derive(Debug)]
pub(super) struct Watch {
    epoll: OwnedFd,
}

impl Watch {
    pub(super) fn new() -> io::Result<Watch> {
        Ok(Watch { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches for input.
    pub(super) fn add(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(source.encode()), EventFlags::IN)?)
    }

    /// Watches for errors only, which are always watched for. Watched already is as good.
    pub(super) fn add_for_errors(&self, fd: impl AsFd, source: Source) -> io::Result<()> {
        match epoll::add(&self.epoll, fd, EventData::new_u64(source.encode()), EventFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Watches for room to write if `output`, else for input. Never for both: input that is not
    /// read yet would wake the hub for nothing.
    pub(super) fn change(&self, fd: impl AsFd, source: Source, output: bool) -> io::Result<()> {
        let flags = if output { EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(source.encode()), flags)?)
    }

    /// Stops watching a descriptor of which there may be other copies.
    pub(super) fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, fd)?)
    }

    /// Waits until something happens, at most `timeout`.
    pub(super) fn wait(&self, timeout: Option<Duration>) -> io::Result<Vec<Source>> {
        let mut space = [const { MaybeUninit::uninit() }; 64];
        match guest::epoll_wait(&self.epoll, &mut space, timeout) {
            Ok(events) => Ok(events.iter().map(|event| Source::decode(event.data.u64())).collect()),
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
        let clients = [0, 1, 7, 1 << 40].map(|id| [Source::Connection(id), Source::Process(id)]);
        let all = [Source::Listener, Source::Stray, Source::Devices, Source::Undelivered];
        for source in all.into_iter().chain(clients.into_iter().flatten()) {
            assert_eq!(Source::decode(source.encode()), source);
        }
    }

    #[test]
    fn input_is_seen() {
        let watch = Watch::new().unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        watch.add(&reader, Source::Process(3)).unwrap();
        assert_eq!(watch.wait(Some(Duration::ZERO)).unwrap(), []);
        rustix::io::write(&writer, b"x").unwrap();
        assert_eq!(watch.wait(None).unwrap(), [Source::Process(3)]);
        drop(reader);
        assert_eq!(watch.wait(Some(Duration::ZERO)).unwrap(), []);
    }
}

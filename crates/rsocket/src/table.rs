//! The sockets of this process by their descriptors' numbers.

use std::os::fd::RawFd;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::datagram::DatagramSocket;
use crate::errno::{Errno, Result};
use crate::stream::StreamSocket;
use crate::wait::Bells;

/// A socket.
#[derive(Clone, Debug)]
pub(crate) enum AnySocket {
    Stream(Arc<StreamSocket>),
    Datagram(Arc<DatagramSocket>),
}

static TABLE: RwLock<Vec<Option<AnySocket>>> = RwLock::new(Vec::new());

/// Enters a socket; returns its number.
pub(crate) fn insert(socket: AnySocket) -> Result<RawFd> {
    let fd = socket.fd();
    let index = usize::try_from(fd).map_err(|_| Errno::BADF)?;
    let mut table = TABLE.write();
    if table.len() <= index {
        table.resize(index + 1, None);
    }
    table[index] = Some(socket);
    Ok(fd)
}

/// The socket of that number.
///
/// # Errors
/// `EBADF` if there is none.
pub(crate) fn find(fd: RawFd) -> Result<AnySocket> {
    let table = TABLE.read();
    let place = usize::try_from(fd).ok().and_then(|index| table.get(index));
    place.and_then(Option::clone).ok_or(Errno::BADF)
}

/// Takes a socket out.
pub(crate) fn remove(fd: RawFd) -> Result<AnySocket> {
    let mut table = TABLE.write();
    let place = usize::try_from(fd).ok().and_then(|index| table.get_mut(index));
    place.and_then(Option::take).ok_or(Errno::BADF)
}

/// True if there is no socket.
pub(crate) fn is_empty() -> bool {
    TABLE.read().iter().all(Option::is_none)
}

impl AnySocket {
    fn fd(&self) -> RawFd {
        match self {
            AnySocket::Stream(stream) => stream.fd(),
            AnySocket::Datagram(datagram) => datagram.fd(),
        }
    }

    /// The events that `poll` would report.
    pub(crate) fn revents(&self, events: i16) -> i16 {
        match self {
            AnySocket::Stream(stream) => stream.revents(events),
            AnySocket::Datagram(datagram) => datagram.revents(events),
        }
    }

    /// Makes sure that its descriptors tell of news, and gives them to `each`.
    pub(crate) fn arm(&self, each: impl FnMut(RawFd)) -> Result<()> {
        match self {
            AnySocket::Stream(stream) => stream.arm(each),
            AnySocket::Datagram(datagram) => datagram.arm(each),
        }
    }

    pub(crate) fn bells(&self) -> &Bells {
        match self {
            AnySocket::Stream(stream) => stream.bells(),
            AnySocket::Datagram(datagram) => datagram.bells(),
        }
    }
}

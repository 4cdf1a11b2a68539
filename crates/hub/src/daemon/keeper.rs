//! The keeper: a message in the kernel that keeps the port's sockets open when the hub dies.
//!
//! The sockets of a port group keep their places only while all of them are open somewhere.
//! So the hub puts copies of all of them into a *keeper*: a message with every descriptor,
//! sent into a socket pair and never read. Each client holds the receiving end. As long as
//! one process holds it, the kernel holds the sockets. A client sends it to the next hub,
//! which reads the message without removing it (`MSG_PEEK` makes duplicates).
//!
//! The message's text lists the cookies of the sockets in the order of their slots.
//! A client can forge a keeper. So the hub compares everything with the kernel's information
//! about the sockets.
//!
//! Outside this module: it does not bind, open or close anything.

use crate::channel::{self, MAX_DESCRIPTORS, ReceiveError};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The receiving end of the socket pair with the message.
#[derive(Debug)]
pub(super) struct Keeper {
    socket: OwnedFd,
}

/// The message's text.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeeperNote {
    /// Tells it from other messages that a client might send.
    longarm_keeper: u32,
    /// The network namespace of the sockets.
    namespace: u64,
    /// The cookie of each socket, in the order of the slots.
    cookies: Vec<u64>,
}

/// The format's version. A hub of another version cannot take the sockets over.
const FORMAT: u32 = 1;

/// The reason why a keeper cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeeperError {
    /// It is not a keeper.
    #[error("it is not a keeper: {0}")]
    NoKeeper(String),
    /// It belongs to another network namespace.
    #[error("it belongs to network namespace {0}")]
    OtherNamespace(u64),
    /// A socket is not the one that it should be.
    #[error("socket {0} is not the one that was kept")]
    OtherSocket(usize),
    /// The group has sockets that are not in the keeper, or fewer than two.
    #[error("it holds {kept} of the {on_port} sockets on the port")]
    Incomplete { kept: usize, on_port: usize },
    /// The descriptors do not fit into this process.
    #[error("its sockets cannot be had: {0}")]
    NoRoom(#[source] ReceiveError),
    /// The system refused.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl Keeper {
    /// Keeps these sockets.
    ///
    /// # Errors
    /// As `socketpair(2)` and `sendmsg(2)`; `ETOOMANYREFS` if this user already has more
    /// descriptors in unread messages than the limit for open files.
    pub(super) fn new(sockets: &[BorrowedFd<'_>], namespace: u64) -> io::Result<Keeper> {
        assert!(sockets.len() <= MAX_DESCRIPTORS, "{} sockets in one message", sockets.len());
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, sender) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let cookies = sockets.iter().map(rustix::net::sockopt::socket_cookie);
        let note = KeeperNote { longarm_keeper: FORMAT, namespace, cookies: cookies.collect::<Result<_, _>>()? };
        let text = serde_json::to_vec(&note).map_err(io::Error::other)?;
        channel::send(sender.as_fd(), &text, sockets)?;
        Ok(Keeper { socket })
    }

    /// Takes a keeper that a client has sent. Returns it with duplicates of its sockets in the order of
    /// their slots.
    pub(super) fn open(socket: OwnedFd, namespace: u64) -> Result<(Keeper, Vec<OwnedFd>), KeeperError> {
        require_socket(&socket)?;
        let message = channel::peek(socket.as_fd(), MAX_DESCRIPTORS).map_err(|error| match error {
            ReceiveError::TooManyDescriptors | ReceiveError::NoDescriptorsLeft => KeeperError::NoRoom(error),
            other => KeeperError::NoKeeper(other.to_string()),
        })?;
        let note: KeeperNote =
            serde_json::from_slice(&message.bytes).map_err(|error| KeeperError::NoKeeper(error.to_string()))?;
        if note.longarm_keeper != FORMAT {
            return Err(KeeperError::NoKeeper(format!("its format is {}", note.longarm_keeper)));
        }
        if note.namespace != namespace {
            return Err(KeeperError::OtherNamespace(note.namespace));
        }
        compare(&note.cookies, &message.descriptors)?;
        Ok((Keeper { socket }, message.descriptors))
    }
}

impl AsFd for Keeper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Refuses all other files: a client may send any descriptor, and reading from some kinds of files blocks.
fn require_socket(socket: &OwnedFd) -> Result<(), KeeperError> {
    let no_keeper = || KeeperError::NoKeeper("it is no Unix packet socket".into());
    let domain = rustix::net::sockopt::socket_domain(socket).map_err(|_| no_keeper())?;
    let kind = rustix::net::sockopt::socket_type(socket).map_err(|_| no_keeper())?;
    let suits = domain == AddressFamily::UNIX && kind == SocketType::SEQPACKET;
    if suits { Ok(()) } else { Err(no_keeper()) }
}

/// Compares the sockets with the note, and with the table of the sockets that this network
/// namespace has on the port.
fn compare(cookies: &[u64], sockets: &[OwnedFd]) -> Result<(), KeeperError> {
    if cookies.len() != sockets.len() {
        let text = format!("it has {} sockets and tells of {}", sockets.len(), cookies.len());
        return Err(KeeperError::NoKeeper(text));
    }
    let on_port = HashSet::<u64>::from_iter(udp::sockets_on_port());
    let mut seen = HashSet::new();
    for (index, (cookie, socket)) in cookies.iter().zip(sockets).enumerate() {
        let same = is_same_socket(socket.as_fd(), *cookie);
        let inode = rustix::fs::fstat(socket).map_err(io::Error::from)?.st_ino;
        if !same || !on_port.contains(&inode) || !seen.insert(inode) {
            return Err(KeeperError::OtherSocket(index));
        }
    }
    if seen.len() < 2 || seen.len() != on_port.len() {
        return Err(KeeperError::Incomplete { kept: seen.len(), on_port: on_port.len() });
    }
    Ok(())
}

/// Whether a descriptor is the socket with this cookie.
pub(super) fn is_same_socket(socket: BorrowedFd<'_>, cookie: u64) -> bool {
    rustix::net::sockopt::socket_cookie(socket).is_ok_and(|own| own == cookie)
}

#[cfg(test)]
mod tests;

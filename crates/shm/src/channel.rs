//! Messages on the socket between two processes: memory objects and their descriptors.
//!
//! ```text
//!   | kind, 4 bytes | object, 4 bytes | start in the file, 8 bytes | length in bytes, 8 bytes |
//!   + the descriptor, with OFFERED
//! ```
//!
//! (The hub's protocol has its own receiver of descriptors, for long messages with many of them. This one is
//! for messages of one size with at most one descriptor.)

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

const MESSAGE_BYTES: usize = 24;
/// The largest number of messages that wait for room in the socket.
const MAX_WAITING: usize = 4096;

/// The subject of a message about an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ObjectMessageKind {
    Offered = 1,
    Withdrawn = 2,
    Wanted = 3,
}

/// A part of a file, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) start: u64,
    pub(crate) len_bytes: u64,
}

/// One message.
#[derive(Debug)]
pub(crate) struct ObjectMessage {
    pub(crate) kind: ObjectMessageKind,
    pub(crate) object: u32,
    /// The object's part of the file.
    pub(crate) extent: Extent,
    pub(crate) fd: Option<OwnedFd>,
}

/// The result of reading the socket.
#[derive(Debug)]
pub(crate) enum Received {
    Message(ObjectMessage),
    Nothing,
    /// The other end is closed.
    Closed,
    /// A message that no honest peer sends.
    Garbage,
}

/// One end of the socket.
#[derive(Debug)]
pub(crate) struct ObjectChannel {
    socket: OwnedFd,
    /// Messages that the socket had no room for, in order.
    waiting: Mutex<VecDeque<ObjectMessage>>,
}

impl ObjectChannel {
    pub(crate) fn new(socket: OwnedFd) -> ObjectChannel {
        ObjectChannel { socket, waiting: Mutex::default() }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Shuts the socket down in both directions.
    pub(crate) fn end(&self) {
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
    }

    /// Sends a message, or queues it until there is room. False if it will not be sent: too many wait
    /// already, or no descriptor is left to keep a copy of the object's.
    pub(crate) fn send(
        &self,
        kind: ObjectMessageKind,
        object: u32,
        extent: Extent,
        fd: Option<BorrowedFd<'_>>,
    ) -> bool {
        let mut waiting = self.waiting.lock();
        self.flush_queue(&mut waiting);
        if waiting.is_empty() && self.try_send(kind, object, extent, fd) {
            return true;
        }
        if waiting.len() >= MAX_WAITING {
            return false;
        }
        let Ok(fd) = fd.map(guest::copy).transpose() else { return false };
        waiting.push_back(ObjectMessage { kind, object, extent, fd });
        true
    }

    /// Sends queued messages as far as there is room. Returns true if some are still queued.
    pub(crate) fn flush(&self) -> bool {
        let mut waiting = self.waiting.lock();
        self.flush_queue(&mut waiting);
        !waiting.is_empty()
    }

    /// The next message. Never blocks.
    pub(crate) fn receive(&self) -> Received {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; MESSAGE_BYTES + 1];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut receive =
            || rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
        // A peer that closes before it has read everything leaves this error behind, once. The messages that
        // it sent are still to be read after it.
        let message = match receive() {
            Err(Errno::CONNRESET) => receive(),
            result => result,
        };
        // There is room for one descriptor; the kernel has closed any others.
        let fd = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
            _ => None,
        });
        match message {
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            Err(_) => Received::Closed,
            Ok(message) if message.bytes == 0 => Received::Closed,
            Ok(message) => {
                let whole = message.bytes == MESSAGE_BYTES && !message.flags.contains(ReturnFlags::TRUNC);
                let decoded = whole.then(|| decode(&bytes, fd)).flatten();
                decoded.map_or(Received::Garbage, Received::Message)
            }
        }
    }

    /// True if the next message offers or withdraws an object. The message stays in the socket.
    pub(crate) fn has_object_news(&self) -> bool {
        let mut kind = [0; 4];
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let there = rustix::net::recv(&self.socket, &mut kind, flags).is_ok_and(|(bytes, _)| bytes == kind.len());
        there
            && [ObjectMessageKind::Offered as u32, ObjectMessageKind::Withdrawn as u32]
                .contains(&u32::from_ne_bytes(kind))
    }

    fn flush_queue(&self, waiting: &mut VecDeque<ObjectMessage>) {
        while let Some(first) = waiting.front() {
            if !self.try_send(first.kind, first.object, first.extent, first.fd.as_ref().map(AsFd::as_fd)) {
                return;
            }
            waiting.pop_front();
        }
    }

    /// True if the message is finished: sent, or impossible to send.
    fn try_send(&self, kind: ObjectMessageKind, object: u32, extent: Extent, fd: Option<BorrowedFd<'_>>) -> bool {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&(kind as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&object.to_ne_bytes());
        bytes[8..16].copy_from_slice(&extent.start.to_ne_bytes());
        bytes[16..].copy_from_slice(&extent.len_bytes.to_ne_bytes());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let descriptors: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
        if !descriptors.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags);
        // TOOMANYREFS: this user has too many descriptors in sockets, not read yet.
        !matches!(sent, Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM | Errno::TOOMANYREFS))
    }
}

/// A pair of connected sockets, both nonblocking.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((guest::high(ours), theirs))
}

fn decode(bytes: &[u8], fd: Option<OwnedFd>) -> Option<ObjectMessage> {
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let kind = match word(0)? {
        1 if fd.is_some() => ObjectMessageKind::Offered,
        2 => ObjectMessageKind::Withdrawn,
        3 => ObjectMessageKind::Wanted,
        _ => return None,
    };
    let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    let extent = Extent { start: long(8)?, len_bytes: long(16)? };
    Some(ObjectMessage { kind, object: word(4)?, extent, fd })
}

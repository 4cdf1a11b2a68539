//! Whole messages with descriptors over a Unix `SOCK_SEQPACKET` socket.
//!
//! Outside this module: it neither waits nor reads a message's content.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use rustix::process::{Resource, Rlimit};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Most bytes of one message.
pub const MAX_MESSAGE_BYTES: usize = 64 << 10;

/// Most descriptors that ever travel with one message: the kernel's own limit.
pub(crate) const MAX_DESCRIPTORS: usize = 253;

/// A message that has arrived.
#[derive(Debug)]
pub(crate) struct ReceivedMessage {
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
    /// Its descriptors, closed on `exec`.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// Whether some of its descriptors are missing.
    pub(crate) is_cut: bool,
    /// Whether they are missing because this process may have no more.
    lacks_room: bool,
}

impl ReceivedMessage {
    /// Moves its descriptors to high numbers, which programs do not use.
    pub(crate) fn high(mut self) -> ReceivedMessage {
        self.descriptors = self.descriptors.into_iter().map(guest::high).collect();
        self
    }
}

/// The reason why nothing was received.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// There is no message yet.
    #[error("there is no message")]
    Nothing,
    /// The other end is closed (or sent an empty message, which looks the same).
    #[error("the connection is closed")]
    Closed,
    /// More bytes than a message may have.
    #[error("a message is longer than {MAX_MESSAGE_BYTES} bytes")]
    TooLong,
    /// More descriptors than expected here.
    #[error("a message brings too many descriptors")]
    TooManyDescriptors,
    /// More descriptors than this process may have.
    #[error("this process may have no more descriptors: raise its limit for open files (`ulimit -n`)")]
    NoDescriptorsLeft,
    /// The system refused.
    #[error("cannot receive: {0}")]
    System(#[source] io::Error),
}

impl From<Errno> for ReceiveError {
    fn from(error: Errno) -> ReceiveError {
        match error {
            Errno::AGAIN | Errno::INTR => ReceiveError::Nothing,
            Errno::CONNRESET | Errno::PIPE => ReceiveError::Closed,
            other => ReceiveError::System(other.into()),
        }
    }
}

/// Sends one message; never waits.
///
/// # Errors
/// `WouldBlock` if the other end does not read; else as `sendmsg(2)`.
pub(crate) fn send(socket: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let mut send =
        || rustix::io::retry_on_intr(|| rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags));
    match send() {
        Err(Errno::TOOMANYREFS) => with_raised_limit(send)?,
        result => result?,
    };
    Ok(())
}

/// Runs `body` while this process's soft limit for open files is as high as it may be.
///
/// The kernel does not let a user send descriptors while more of them than that limit are in
/// unread messages. Every hub's keeper is such a message. So
/// a user with hubs in several network namespaces would reach the usual limit of 1024.
fn with_raised_limit<R>(body: impl FnOnce() -> R) -> R {
    let before = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, ..before };
    let changed = rustix::process::setrlimit(Resource::Nofile, raised).is_ok();
    let result = body();
    if changed && let Err(error) = rustix::process::setrlimit(Resource::Nofile, before) {
        log::warn!("the limit for open files stays raised: {error}");
    }
    result
}

/// Receives one message with at most `most_descriptors`, without waiting. Further descriptors
/// are closed.
///
/// # Errors
/// See [`ReceiveError`]. After `TooLong`, `TooManyDescriptors` and `NoDescriptorsLeft` the message is gone.
pub(crate) fn receive(socket: BorrowedFd<'_>, most_descriptors: usize) -> Result<ReceivedMessage, ReceiveError> {
    complete(receive_with(socket, most_descriptors, RecvFlags::empty())?)
}

/// As [`receive`], but a message with missing descriptors is returned without any.
pub(crate) fn receive_even_cut(
    socket: BorrowedFd<'_>,
    most_descriptors: usize,
) -> Result<ReceivedMessage, ReceiveError> {
    receive_with(socket, most_descriptors, RecvFlags::empty())
}

/// As [`receive`], but the message stays in the queue, and its descriptors are duplicates.
pub(crate) fn peek(socket: BorrowedFd<'_>, most_descriptors: usize) -> Result<ReceivedMessage, ReceiveError> {
    complete(receive_with(socket, most_descriptors, RecvFlags::PEEK)?)
}

fn complete(message: ReceivedMessage) -> Result<ReceivedMessage, ReceiveError> {
    match message {
        ReceivedMessage { lacks_room: true, .. } => Err(ReceiveError::NoDescriptorsLeft),
        ReceivedMessage { is_cut: true, .. } => Err(ReceiveError::TooManyDescriptors),
        message => Ok(message),
    }
}

fn receive_with(
    socket: BorrowedFd<'_>,
    most_descriptors: usize,
    flags: RecvFlags,
) -> Result<ReceivedMessage, ReceiveError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let room = rustix::cmsg_space!(ScmRights(most_descriptors)).min(space.len());
    let mut control = RecvAncillaryBuffer::new(&mut space[..room]);
    // One byte more than allowed tells a longer message from the longest.
    let mut bytes = vec![0; MAX_MESSAGE_BYTES + 1];
    let flags = flags | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut receive = || rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags);
    // A peer that closes without reading everything leaves this error, once. Its last messages, probably the reason
    // for closing, follow.
    let message = match receive() {
        Err(Errno::CONNRESET) => receive(),
        result => result,
    }?;
    let descriptors = take_descriptors(&mut control);
    if message.flags.contains(ReturnFlags::TRUNC) || message.bytes > MAX_MESSAGE_BYTES {
        return Err(ReceiveError::TooLong);
    }
    let is_cut = message.flags.contains(ReturnFlags::CTRUNC) || descriptors.len() > most_descriptors;
    let lacks_room = is_cut && descriptors.len() < most_descriptors;
    // An empty message looks like a closed connection.
    if message.bytes == 0 && !is_cut {
        return Err(ReceiveError::Closed);
    }
    bytes.truncate(message.bytes);
    let descriptors = if is_cut { Vec::new() } else { descriptors };
    Ok(ReceivedMessage { bytes, descriptors, is_cut, lacks_room })
}

fn take_descriptors(control: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    descriptors
}

#[cfg(test)]
mod tests;

//! The messages between a program and its memory process, and the socket that carries them.
//!
//! One request, one answer. Each is a packet of a Unix socket (`SOCK_SEQPACKET`), and a region's file comes with its packet.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exposure::keeper::ConnectionToken;

/// The longest message, in bytes.
const LONGEST: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeeperRequest {
    /// The first: listen there, under that name, and stay for so long after the program's end.
    Start {
        host: String,
        port: u16,
        name: Option<String>,
        linger_ms: u64,
    },
    /// Expose memory. Its file comes with the message.
    Region {
        number: u32,
        len_bytes: u64,
    },
    Allow(ConnectionToken),
    Open {
        token: ConnectionToken,
        window: u32,
        place: WindowPlace,
    },
    Close {
        token: ConnectionToken,
        window: u32,
    },
    Revoke(ConnectionToken),
    Find {
        token: ConnectionToken,
        window: u32,
    },
}

/// The memory of a window, and the peer's rights (the bits of `Access`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WindowPlace {
    pub(crate) region: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) access: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeeperReply {
    Done,
    /// The port at which it listens.
    Started(u16),
    Found(Option<FoundWindow>),
    Refused(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundWindow {
    pub(crate) key: Vec<u8>,
    pub(crate) peer: std::net::SocketAddr,
    pub(crate) attempt: u64,
}

/// One end of the socket.
#[derive(Debug)]
pub(crate) struct KeeperSocket<F>(pub(crate) F);

impl KeeperSocket<OwnedFd> {
    pub(crate) fn pair() -> io::Result<(KeeperSocket<OwnedFd>, OwnedFd)> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((KeeperSocket(ours), theirs))
    }
}

impl<F: AsFd> KeeperSocket<F> {
    /// Sends a message, with a file or without.
    pub(crate) fn send(&self, message: &impl Serialize, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
        let files: Vec<BorrowedFd<'_>> = file.into_iter().collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&files));
        }
        retry(|| sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)).map(|_| ())
    }

    /// The next message, with its file; `None` at the end. Without a timeout it waits for ever.
    ///
    /// # Errors
    /// `TimedOut`, `InvalidData`, or the system's.
    pub(crate) fn receive<T: DeserializeOwned>(
        &self,
        timeout: Option<Duration>,
    ) -> io::Result<Option<(T, Option<OwnedFd>)>> {
        if let Some(timeout) = timeout {
            let timeout = Timespec::try_from(timeout).ok();
            if retry(|| poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref()))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        let mut bytes = [0; LONGEST];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received =
            retry(|| recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC));
        let received = match received {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            received => received?,
        };
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        if received.bytes == 0 {
            return Ok(None);
        }
        let malformed = |_| io::Error::new(io::ErrorKind::InvalidData, "a malformed message");
        Ok(Some((postcard::from_bytes(&bytes[..received.bytes]).map_err(malformed)?, file)))
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn messages_and_files_arrive_and_the_end_is_seen() {
        let (one, two) = KeeperSocket::pair().unwrap();
        let two = KeeperSocket(two);
        let request = KeeperRequest::Region { number: 3, len_bytes: 4096 };
        let file = std::fs::File::open("/proc/self/comm").unwrap();
        one.send(&request, Some(file.as_fd())).unwrap();
        let (received, file) = two.receive::<KeeperRequest>(None).unwrap().unwrap();
        assert_eq!(received, request);
        let mut name = String::new();
        std::fs::File::from(file.unwrap()).read_to_string(&mut name).unwrap();
        assert!(!name.is_empty());
        two.send(&KeeperReply::Refused("no".into()), None).unwrap();
        let (reply, file) = one.receive::<KeeperReply>(Some(Duration::from_secs(60))).unwrap().unwrap();
        assert!(reply == KeeperReply::Refused("no".into()) && file.is_none());
        let late = one.receive::<KeeperReply>(Some(Duration::from_millis(1))).unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        one.send(&[9_u8; 32], None).unwrap();
        assert_eq!(two.receive::<KeeperRequest>(None).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(one);
        assert!(two.receive::<KeeperRequest>(None).unwrap().is_none());
    }
}

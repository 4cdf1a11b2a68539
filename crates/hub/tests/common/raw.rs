//! Connections without the protocol, and fake hubs.

use super::TestHub;
use faults::Rng;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::path::PathBuf;
use testkit::PATIENCE;

/// One end of a connection between hub and client, without the protocol.
pub struct Raw {
    pub socket: OwnedFd,
}

impl Raw {
    /// Connects to the hub.
    pub fn connect(place: &TestHub) -> Raw {
        let socket = socket();
        rustix::net::connect(&socket, &address(place)).unwrap();
        Raw { socket }
    }

    /// Connects to the hub and says hello.
    pub fn greeted(place: &TestHub) -> Raw {
        let raw = Raw::connect(place);
        raw.say(r#"{"request":"hello","version":3,"pid":1,"program":"raw"}"#);
        assert!(raw.hear().unwrap().contains("welcome"));
        raw
    }

    /// Sends text.
    pub fn say(&self, text: &str) {
        self.send(text.as_bytes(), &[]).unwrap();
    }

    /// Sends anything.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> rustix::io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
    }

    /// Sends without waiting.
    pub fn try_send(&self, bytes: &[u8]) -> rustix::io::Result<usize> {
        rustix::net::send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    /// The next message's text; `None` if the other end has closed.
    pub fn hear(&self) -> Option<String> {
        self.receive().map(|(text, _)| text)
    }

    /// The next message; `None` if the other end has closed.
    pub fn receive(&self) -> Option<(String, Vec<OwnedFd>)> {
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        let timeout = Timespec::try_from(PATIENCE).unwrap();
        assert_eq!(rustix::event::poll(&mut fds, Some(&timeout)).unwrap(), 1, "no answer");
        let mut bytes = vec![0; 1 << 17];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut iov = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        // The error of a peer that closed without reading everything comes before its messages.
        let message = rustix::net::recvmsg(&self.socket, &mut iov, &mut control, flags)
            .or_else(|_| rustix::net::recvmsg(&self.socket, &mut iov, &mut control, flags))
            .ok()?;
        let len = message.bytes;
        let descriptors = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        let descriptors = descriptors.flatten().collect();
        (len > 0).then(|| (String::from_utf8_lossy(&bytes[..len]).into_owned(), descriptors))
    }
}

/// Listens where a hub would.
pub fn listen(place: &TestHub) -> OwnedFd {
    let socket = socket();
    rustix::net::bind(&socket, &address(place)).unwrap();
    rustix::net::listen(&socket, 16).unwrap();
    socket
}

/// The path of the hub's socket.
pub fn socket_path(place: &TestHub) -> PathBuf {
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").unwrap().st_ino();
    place.dir().join(format!("hub-{namespace}.sock"))
}

fn address(place: &TestHub) -> SocketAddrUnix {
    SocketAddrUnix::new(socket_path(place)).unwrap()
}

fn socket() -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// Random bytes.
pub fn random_bytes(rng: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng.fill(&mut bytes);
    bytes
}

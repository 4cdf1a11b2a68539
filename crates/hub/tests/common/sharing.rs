//! Fake shm offers: files of text.

use longarm_hub::client::{Session, SessionEvent, ShmLinkOffer, ShmOffer};
use rustix::fs::MemfdFlags;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use testkit::{wait_for, wait_until};

/// A file of text in memory.
pub fn file(text: &str) -> OwnedFd {
    let file = rustix::fs::memfd_create("longarm-test", MemfdFlags::CLOEXEC).unwrap();
    write(&file, text);
    file
}

/// Writes text to a descriptor of any kind.
pub fn write(fd: &OwnedFd, text: &str) {
    assert_eq!(rustix::io::write(fd, text.as_bytes()), Ok(text.len()));
}

/// The text of a file in memory.
pub fn text(file: impl AsFd) -> String {
    let mut bytes = [0; 64];
    let len = rustix::io::pread(file, &mut bytes, 0).unwrap();
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// The message that came through a socket.
pub fn heard(socket: &OwnedFd) -> String {
    let mut bytes = [0; 64];
    let mut len = 0;
    wait_until("something came through the socket", || {
        match rustix::net::recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((received, _)) => len = received,
            Err(error) => assert_eq!(error, rustix::io::Errno::AGAIN),
        }
        len > 0
    });
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// An offer with this text in its export, and `wake` of it in its wake.
pub fn offer(name: &str) -> ShmOffer {
    ShmOffer { export: Arc::new(file(name)), wake: Arc::new(file(&format!("wake {name}"))) }
}

/// A link with this text, and the asking side's end of its socket pair.
pub fn link(name: &str) -> (ShmLinkOffer, OwnedFd) {
    let flags = SocketFlags::CLOEXEC;
    let (own, socket) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    (ShmLinkOffer { link: file(name), socket }, own)
}

/// The next event that is one of introductions, or of the hub's end.
pub fn next_event(session: &mut Session) -> SessionEvent {
    wait_for("an event", || {
        session.maintain(Instant::now());
        session.next_event().filter(|event| !matches!(event, SessionEvent::DevicesChanged(_)))
    })
}

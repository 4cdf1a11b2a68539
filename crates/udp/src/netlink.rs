//! A minimal rtnetlink client: dumps of links and addresses, and notifications of their changes.
//!
//! A message is `len:4 type:2 flags:2 sequence:4 port:4` and a body. A body is a fixed header and attributes,
//! each `len:2 type:2` and data, padded to 4. All fields are in the machine's byte order.

use crate::sys;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

const MESSAGE_HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// The largest part of a dump that the kernel puts into one read, in bytes.
const READ_BYTES: usize = 32 << 10;
/// Attempts at a dump during which nothing changes.
const MAX_DUMPS: usize = 8;
/// The longest wait for an answer. The kernel normally answers immediately.
const ANSWER_TIMEOUT_MS: i32 = 5000;

/// The multicast groups of [`subscribe`]: changes of links and addresses.
const GROUPS: i32 = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;

/// The body of one message of a dump.
pub(crate) struct MessageBody(Vec<u8>);

impl MessageBody {
    /// The first `N` bytes.
    pub(crate) fn header<const N: usize>(&self) -> Option<[u8; N]> {
        self.0.first_chunk().copied()
    }

    /// Attributes after a header of `header_bytes`: type and data.
    pub(crate) fn attributes(&self, header_bytes: usize) -> Attributes<'_> {
        Attributes { rest: self.0.get(header_bytes..).unwrap_or_default() }
    }
}

/// Iterator over attributes; ends at the first one that is not whole.
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let [a, b, c, d] = *self.rest.first_chunk()?;
        let len_bytes = usize::from(u16::from_ne_bytes([a, b]));
        let data = self.rest.get(ATTRIBUTE_HEADER_BYTES..len_bytes)?;
        self.rest = self.rest.get(len_bytes.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([c, d]), data))
    }
}

/// A socket that becomes readable whenever links or addresses change.
pub(crate) fn subscribe() -> io::Result<OwnedFd> {
    let socket = open()?;
    sys::bind(socket.as_fd(), &kernel_address(GROUPS as u32))?;
    Ok(socket)
}

/// Empties a socket of [`subscribe`]. Returns true if there were changes.
pub(crate) fn take_changes(socket: &OwnedFd) -> io::Result<bool> {
    let mut changed = false;
    loop {
        match sys::recv(socket.as_fd(), &mut [], libc::MSG_DONTWAIT | libc::MSG_TRUNC) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(changed),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The kernel has lost notifications, so there were changes.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
            result => {
                result?;
                changed = true;
            }
        }
    }
}

/// The bodies of all messages of type `answer` in the dump for `request`. `body` is the body of the request.
pub(crate) fn dump(request: u16, answer: u16, body: &[u8]) -> io::Result<Vec<MessageBody>> {
    for _ in 0..MAX_DUMPS {
        if let Some(bodies) = dump_once(request, answer, body)? {
            return Ok(bodies);
        }
    }
    Err(io::Error::new(io::ErrorKind::TimedOut, "network interfaces keep changing"))
}

/// One dump, or `None` if something changed meanwhile: then it may be inconsistent.
fn dump_once(request: u16, answer: u16, body: &[u8]) -> io::Result<Option<Vec<MessageBody>>> {
    let socket = open()?;
    sys::send(socket.as_fd(), &request_bytes(request, libc::NLM_F_DUMP, body))?;
    let mut bodies = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        sys::wait(socket.as_fd(), libc::POLLIN, ANSWER_TIMEOUT_MS)?;
        let len_bytes = sys::recv(socket.as_fd(), &mut buffer, 0)?;
        match take_messages(&buffer[..len_bytes], answer, &mut bodies)? {
            DumpProgress::More => {}
            DumpProgress::Done => return Ok(Some(bodies)),
            DumpProgress::Interrupted => return Ok(None),
        }
    }
}

/// Makes a change and waits for the kernel's ACK.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn change(request: u16, flags: i32, body: &[u8]) -> io::Result<()> {
    let socket = open()?;
    sys::send(socket.as_fd(), &request_bytes(request, flags | libc::NLM_F_ACK, body))?;
    sys::wait(socket.as_fd(), libc::POLLIN, ANSWER_TIMEOUT_MS)?;
    let mut buffer = [0; 4096];
    let len_bytes = sys::recv(socket.as_fd(), &mut buffer, 0)?;
    match take_messages(&buffer[..len_bytes], 0, &mut Vec::new()) {
        // An ACK is an error message with the number 0.
        Err(error) if error.raw_os_error() == Some(0) => Ok(()),
        result => result.map(drop),
    }
}

#[derive(Debug, PartialEq, Eq)]
enum DumpProgress {
    More,
    Done,
    Interrupted,
}

/// Takes the messages of one read: appends the wanted bodies.
fn take_messages(mut read: &[u8], answer: u16, bodies: &mut Vec<MessageBody>) -> io::Result<DumpProgress> {
    while let Some(header) = read.first_chunk::<MESSAGE_HEADER_BYTES>() {
        let [a, b, c, d, e, f, g, h, ..] = *header;
        let len_bytes = u32::from_ne_bytes([a, b, c, d]) as usize;
        let (kind, flags) = (u16::from_ne_bytes([e, f]), u16::from_ne_bytes([g, h]));
        let body = read.get(MESSAGE_HEADER_BYTES..len_bytes).ok_or(io::ErrorKind::InvalidData)?;
        if i32::from(flags) & libc::NLM_F_DUMP_INTR != 0 {
            return Ok(DumpProgress::Interrupted);
        }
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(DumpProgress::Done),
            libc::NLMSG_ERROR => return Err(refusal(body)),
            _ if kind == answer => bodies.push(MessageBody(body.to_vec())),
            _ => {}
        }
        read = read.get(len_bytes.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(DumpProgress::More)
}

/// The error of an error message, whose body begins with the negative error number.
fn refusal(body: &[u8]) -> io::Error {
    let errno = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    io::Error::from_raw_os_error(errno.checked_neg().unwrap_or(libc::EIO))
}

fn open() -> io::Result<OwnedFd> {
    sys::socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
}

/// `struct sockaddr_nl`: family:2 padding:2 port:4 groups:4.
fn kernel_address(groups: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(&(libc::AF_NETLINK as u16).to_ne_bytes());
    bytes[8..].copy_from_slice(&groups.to_ne_bytes());
    bytes
}

fn request_bytes(kind: u16, flags: i32, body: &[u8]) -> Vec<u8> {
    let len = (MESSAGE_HEADER_BYTES + body.len()) as u32;
    let flags = (libc::NLM_F_REQUEST | flags) as u16;
    let mut bytes = Vec::with_capacity(len as usize);
    bytes.extend_from_slice(&len.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut bytes = request_bytes(kind, 0, body);
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn wanted_messages_are_taken_until_the_end() {
        let done = libc::NLMSG_DONE as u16;
        let read = [message(20, 0, b"one"), message(21, 0, b"other"), message(20, 0, b"two!")];
        let mut bodies = Vec::new();
        assert_eq!(take_messages(&read.concat(), 20, &mut bodies).unwrap(), DumpProgress::More);
        let end = message(done, 0, &[0; 4]);
        assert_eq!(take_messages(&end, 20, &mut bodies).unwrap(), DumpProgress::Done);
        let taken: Vec<_> = bodies.iter().map(|body| body.0.as_slice()).collect();
        assert_eq!(taken, [b"one".as_slice(), b"two!"]);
    }

    #[test]
    fn errors_and_changes_meanwhile_end_a_dump() {
        let mut bodies = Vec::new();
        let error = message(libc::NLMSG_ERROR as u16, 0, &(-libc::EPERM).to_ne_bytes());
        let error = take_messages(&error, 20, &mut bodies).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        let changed = message(20, libc::NLM_F_DUMP_INTR as u16, b"one");
        assert_eq!(take_messages(&changed, 20, &mut bodies).unwrap(), DumpProgress::Interrupted);
    }

    #[test]
    fn broken_reads_are_refused() {
        for len in [0u32, 15, 17, u32::MAX] {
            let mut read = message(20, 0, &[]);
            read[..4].copy_from_slice(&len.to_ne_bytes());
            assert!(take_messages(&read, 20, &mut Vec::new()).is_err(), "{len}");
        }
    }

    #[test]
    fn attributes_end_where_they_are_broken() {
        let body = MessageBody([&[9; 4], &[7u8, 0, 1, 0, 1, 2, 3, 0][..], &[200, 0, 2, 0]].concat());
        let got: Vec<_> = body.attributes(4).collect();
        #[cfg(target_endian = "little")]
        assert_eq!(got, [(1, [1, 2, 3].as_slice())]);
        assert_eq!(body.header(), Some([9; 4]));
        assert_eq!(MessageBody(vec![3; 3]).header::<4>(), None);
        assert_eq!(MessageBody(vec![3; 3]).attributes(4).count(), 0);
    }
}

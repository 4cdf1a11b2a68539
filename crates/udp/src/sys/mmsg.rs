//! `recvmsg`, `recvmmsg`, `sendmsg` and `sendmmsg`.
//!
//! One message uses the plain call, several use the vectored one: the plain one is the shorter path through
//! the kernel. No function here allocates.
//!
//! The calls go directly to the kernel. libc's functions of these names are cancellation
//! points, which cost an atomic operation before and after each call. A polling thread makes these calls most often.

use super::check_len;
use crate::address::RawAddress;
use crate::cmsg::{ControlBuffer, space};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// The largest number of messages in one call.
pub(crate) const MAX_MESSAGES: usize = 32;

/// Room for the control messages of one received datagram: IPV6_PKTINFO, IP_PKTINFO, two of traffic class,
/// two of hop limit, and the segment size.
pub(crate) const RX_CONTROL_BYTES: usize = space(20) + space(12) + 5 * space(4);

/// Room for the control messages of one send: IPV6_PKTINFO, traffic class, hop limit, and
/// the segment size.
pub(crate) const TX_CONTROL_BYTES: usize = space(20) + 2 * space(4) + space(2);

/// The kernel's description of one received datagram.
#[derive(Clone, Copy)]
pub(crate) struct RxHeader {
    pub(crate) source: RawAddress,
    pub(crate) control: ControlBuffer<RX_CONTROL_BYTES>,
    pub(crate) len_bytes: usize,
    pub(crate) flags: i32,
}

impl RxHeader {
    pub(crate) const EMPTY: RxHeader =
        RxHeader { source: RawAddress::EMPTY, control: ControlBuffer::EMPTY, len_bytes: 0, flags: 0 };

    /// Copies the kernel's results from `raw`.
    fn finish(&mut self, raw: &libc::msghdr, len_bytes: usize) {
        self.source.set_len(raw.msg_namelen);
        self.control.set_len(raw.msg_controllen);
        self.flags = raw.msg_flags;
        self.len_bytes = len_bytes;
    }
}

/// One datagram (or segmented send) to send.
#[derive(Clone, Copy)]
pub(crate) struct TxMessage<'a> {
    pub(crate) destination: RawAddress,
    pub(crate) control: ControlBuffer<TX_CONTROL_BYTES>,
    pub(crate) bytes: &'a [u8],
}

impl TxMessage<'_> {
    pub(crate) const EMPTY: TxMessage<'static> =
        TxMessage { destination: RawAddress::EMPTY, control: ControlBuffer::EMPTY, bytes: &[] };
}

/// Flags of sends: do not wait, do not raise a signal.
const TX_FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

const NO_MESSAGE: libc::msghdr = libc::msghdr {
    msg_name: ptr::null_mut(),
    msg_namelen: 0,
    msg_iov: ptr::null_mut(),
    msg_iovlen: 0,
    msg_control: ptr::null_mut(),
    msg_controllen: 0,
    msg_flags: 0,
};
const NO_MESSAGES: libc::mmsghdr = libc::mmsghdr { msg_hdr: NO_MESSAGE, msg_len: 0 };
const NO_VECTOR: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };

/// A `msghdr` to receive into `header`, with its data in `vector`.
fn rx_message(header: &mut RxHeader, vector: *mut libc::iovec) -> libc::msghdr {
    let name = header.source.room();
    let (msg_name, msg_namelen) = (name.as_mut_ptr().cast(), name.len() as libc::socklen_t);
    let control = header.control.room();
    libc::msghdr {
        msg_name,
        msg_namelen,
        msg_iov: vector,
        msg_iovlen: 1,
        msg_control: control.as_mut_ptr().cast(),
        msg_controllen: control.len(),
        msg_flags: 0,
    }
}

/// A `msghdr` to send `message`, with its data in `vector`.
fn tx_message(message: &TxMessage<'_>, vector: *mut libc::iovec) -> libc::msghdr {
    let name = message.destination.as_bytes();
    let control = message.control.as_bytes();
    libc::msghdr {
        msg_name: name.as_ptr().cast_mut().cast(),
        msg_namelen: name.len() as libc::socklen_t,
        msg_iov: vector,
        msg_iovlen: 1,
        msg_control: if control.is_empty() { ptr::null_mut() } else { control.as_ptr().cast_mut().cast() },
        msg_controllen: control.len(),
        msg_flags: 0,
    }
}

fn rx_vector(data: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() }
}

fn tx_vector(data: &[u8]) -> libc::iovec {
    libc::iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: data.len() }
}

/// Receives datagrams without waiting: `headers[i]` and the `i`th `room_bytes` of `data` belong to datagram
/// `i`. Returns their number; errors as `recvmmsg(2)`, `WouldBlock` if there is none.
///
/// # Panics
/// If there are no or more than [`MAX_MESSAGES`] headers, or `data` has too little room for them.
pub(crate) fn receive(
    fd: BorrowedFd<'_>,
    headers: &mut [RxHeader],
    data: &mut [u8],
    room_bytes: usize,
) -> io::Result<usize> {
    assert!(headers.len() * room_bytes <= data.len());
    match headers {
        [header] => receive_one(fd, header, &mut data[..room_bytes]).map(|()| 1),
        headers => receive_many(fd, headers, data, room_bytes),
    }
}

fn receive_one(fd: BorrowedFd<'_>, header: &mut RxHeader, data: &mut [u8]) -> io::Result<()> {
    let mut vector = rx_vector(data);
    let mut raw = rx_message(header, &raw mut vector);
    // SAFETY: the name, control and data pointers come from exclusive borrows that last until the end of this
    // function, with their true lengths. `vector` lives as long.
    let result = unsafe { libc::syscall(libc::SYS_recvmsg, fd.as_raw_fd(), &raw mut raw, libc::MSG_DONTWAIT) };
    header.finish(&raw, check_len(result as isize)?);
    Ok(())
}

/// Takes the oldest error about an earlier send, with the packet as far as the network returned it.
/// `WouldBlock` if there is none.
pub(crate) fn receive_error(fd: BorrowedFd<'_>, header: &mut RxHeader, data: &mut [u8]) -> io::Result<()> {
    let mut vector = rx_vector(data);
    let mut raw = rx_message(header, &raw mut vector);
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the name, control and data pointers come from exclusive borrows that last until the end of this
    // function, with their true lengths. `vector` lives as long.
    let result = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut raw, flags) };
    header.finish(&raw, check_len(result)?);
    Ok(())
}

fn receive_many(fd: BorrowedFd<'_>, headers: &mut [RxHeader], data: &mut [u8], room_bytes: usize) -> io::Result<usize> {
    assert!((1..=MAX_MESSAGES).contains(&headers.len()));
    let mut vectors = [NO_VECTOR; MAX_MESSAGES];
    let mut raws = [NO_MESSAGES; MAX_MESSAGES];
    let rooms = data.chunks_exact_mut(room_bytes);
    for (((header, room), vector), raw) in headers.iter_mut().zip(rooms).zip(&mut vectors).zip(&mut raws) {
        *vector = rx_vector(room);
        raw.msg_hdr = rx_message(header, vector);
    }
    // SAFETY: there is a header, a room and a vector for each of the first `headers.len()` entries (asserted
    // above and in `receive`). They point to disjoint parts of exclusive borrows that last until the end of
    // this function, with their true lengths.
    let result = unsafe {
        libc::syscall(
            libc::SYS_recvmmsg,
            fd.as_raw_fd(),
            raws.as_mut_ptr(),
            headers.len() as libc::c_uint,
            libc::MSG_DONTWAIT,
            ptr::null_mut::<libc::timespec>(),
        )
    };
    let count = check_len(result as isize)?;
    for (header, raw) in headers.iter_mut().zip(&raws).take(count) {
        header.finish(&raw.msg_hdr, raw.msg_len as usize);
    }
    Ok(count)
}

/// Sends messages in order without waiting. Returns the number that the kernel took, at least one. An error
/// is that of the first message; then the kernel took none.
///
/// # Panics
/// If there are no or more than [`MAX_MESSAGES`] messages.
pub(crate) fn transmit(fd: BorrowedFd<'_>, messages: &[TxMessage<'_>]) -> io::Result<usize> {
    match messages {
        [message] => transmit_one(fd, message).map(|()| 1),
        messages => transmit_many(fd, messages),
    }
}

fn transmit_one(fd: BorrowedFd<'_>, message: &TxMessage<'_>) -> io::Result<()> {
    if message.control.as_bytes().is_empty() {
        return transmit_plain(fd, message);
    }
    let mut vector = tx_vector(message.bytes);
    let raw = tx_message(message, &raw mut vector);
    // SAFETY: all pointers come from borrows that last until the end of this function, with
    // their true lengths; the kernel only reads through them.
    let result = unsafe { libc::syscall(libc::SYS_sendmsg, fd.as_raw_fd(), &raw const raw, TX_FLAGS) };
    check_len(result as isize).map(drop)
}

/// Sends a message without control messages by `sendto`, which is cheaper.
fn transmit_plain(fd: BorrowedFd<'_>, message: &TxMessage<'_>) -> io::Result<()> {
    let (bytes, to) = (message.bytes, message.destination.as_bytes());
    // SAFETY: both pointers come from slices that outlive the call, with their true lengths; the kernel only reads
    // through them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            TX_FLAGS,
            to.as_ptr(),
            to.len() as libc::socklen_t,
        )
    };
    check_len(result as isize).map(drop)
}

fn transmit_many(fd: BorrowedFd<'_>, messages: &[TxMessage<'_>]) -> io::Result<usize> {
    assert!((1..=MAX_MESSAGES).contains(&messages.len()));
    let mut vectors = [NO_VECTOR; MAX_MESSAGES];
    let mut raws = [NO_MESSAGES; MAX_MESSAGES];
    for ((message, vector), raw) in messages.iter().zip(&mut vectors).zip(&mut raws) {
        *vector = tx_vector(message.bytes);
        raw.msg_hdr = tx_message(message, vector);
    }
    // SAFETY: the first `messages.len()` entries point to borrows that last until the end of this function,
    // with their true lengths. The kernel reads through them and writes only the `msg_len` of the entries
    // themselves.
    let result = unsafe {
        libc::syscall(libc::SYS_sendmmsg, fd.as_raw_fd(), raws.as_mut_ptr(), messages.len() as libc::c_uint, TX_FLAGS)
    };
    check_len(result as isize)
}

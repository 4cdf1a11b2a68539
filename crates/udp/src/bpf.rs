//! The classic BPF programs that the kernel runs for this crate, and the calls that attach them.

use crate::sys;
use std::io;
use std::os::fd::BorrowedFd;

/// Offset in the UDP payload of the byte that chooses the slot: the high byte of the 24-bit
/// destination QPN in the BTH (bytes 5 to 7, IB specification 9.2).
const SLOT_OFFSET: u32 = 5;

const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const RETURN_A: u16 = (libc::BPF_RET | libc::BPF_A) as u16;
const RETURN_K: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

const fn instruction(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// `ldb [5]; ret a`. In a reuse-port group the program sees the UDP payload, over IPv4 and IPv6 alike. It
/// returns the index of the socket that gets the packet. It returns 0 for a packet that is too short.
const STEER: [libc::sock_filter; 2] = [instruction(LOAD_BYTE, SLOT_OFFSET), instruction(RETURN_A, 0)];

/// `ret #0`: keep nothing.
const DROP_ALL: [libc::sock_filter; 1] = [instruction(RETURN_K, 0)];

/// Makes the reuse-port group of `fd` deliver by slot. Replaces an earlier program.
pub(crate) fn steer_by_slot(fd: BorrowedFd<'_>) -> io::Result<()> {
    sys::set_filter(fd, libc::SO_ATTACH_REUSEPORT_CBPF, &STEER)
}

/// Makes a socket receive nothing after this call. Packets in its queue stay.
pub(crate) fn drop_all(fd: BorrowedFd<'_>) -> io::Result<()> {
    sys::set_filter(fd, libc::SO_ATTACH_FILTER, &DROP_ALL)
}

/// Undoes [`drop_all`]. Does nothing to a socket without a filter.
pub(crate) fn accept_all(fd: BorrowedFd<'_>) -> io::Result<()> {
    match sys::set(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, 0) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(()),
        result => result,
    }
}

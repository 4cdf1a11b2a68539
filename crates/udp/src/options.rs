//! The two options that speed up streams, for plain sockets that benchmarks compare with this crate's.

use crate::sys;
use std::io;
use std::os::fd::AsFd;

/// Cuts later sends into packets of this many bytes (UDP_SEGMENT, udp(7)).
///
/// # Errors
/// As `setsockopt(2)`.
pub fn send_in_segments(socket: &impl AsFd, segment_bytes: u16) -> io::Result<()> {
    sys::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, segment_bytes.into())
}

/// Makes the kernel deliver packets of one flow and length that arrive together as one (UDP_GRO, udp(7)).
///
/// # Errors
/// As `setsockopt(2)`.
pub fn receive_together(socket: &impl AsFd) -> io::Result<()> {
    sys::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)
}

//! The two options that make streams fast, for plain sockets beside which ours are measured.

use crate::sys;
use std::io;
use std::os::fd::AsFd;

/// Cuts what is sent from now on into packets of so many bytes (UDP_SEGMENT, udp(7)).
///
/// # Errors
/// As `setsockopt(2)`.
pub fn send_in_segments(socket: &impl AsFd, segment_bytes: u16) -> io::Result<()> {
    sys::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_SEGMENT, segment_bytes.into())
}

/// Packets of one flow and length that arrive together are received as one (UDP_GRO, udp(7)).
///
/// # Errors
/// As `setsockopt(2)`.
pub fn receive_together(socket: &impl AsFd) -> io::Result<()> {
    sys::set(socket.as_fd(), libc::SOL_UDP, libc::UDP_GRO, 1)
}

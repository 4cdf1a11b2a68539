//! One end of a connection, which both halves of a stream hold.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use rsocket::Errno;
use rsocket::tasks::TaskStream;

use crate::error::Doing;

/// See the module.
pub(crate) type SharedTaskStream = Arc<TaskStream>;

/// The local address of an end.
pub(crate) fn local_addr(stream: &TaskStream) -> io::Result<SocketAddr> {
    stream.local_addr().ok_or_else(|| Doing::Streaming(None).failed(Errno(libc::ENOTCONN)))
}

/// The peer's address.
pub(crate) fn peer_addr(stream: &TaskStream) -> io::Result<SocketAddr> {
    stream.peer_addr().map_err(|errno| Doing::Streaming(None).failed(errno))
}

/// An error of an end.
pub(crate) fn failed(stream: &TaskStream, errno: Errno) -> io::Error {
    Doing::Streaming(stream.peer_addr().ok()).failed(errno)
}

/// Ends our direction of an end.
pub(crate) fn poll_finish(stream: &TaskStream, task: &mut Context<'_>) -> Poll<io::Result<()>> {
    stream.poll_shutdown(task, Shutdown::Write).map_err(|errno| failed(stream, errno))
}

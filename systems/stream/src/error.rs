//! Errors, in words.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use rsocket::Errno;

/// The cause of an error of a stream: [`io::Error::get_ref`] has it.
///
/// ```
/// # use longarm_stream::StreamError;
/// fn errno(error: &std::io::Error) -> Option<i32> {
///     error.get_ref()?.downcast_ref::<StreamError>().map(StreamError::errno)
/// }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct StreamError {
    text: String,
    errno: i32,
}

impl StreamError {
    pub(crate) fn new(text: String, errno: i32) -> StreamError {
        StreamError { text, errno }
    }

    /// The number that a socket of the system would give.
    pub fn errno(&self) -> i32 {
        self.errno
    }
}

/// The action that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Doing {
    Connecting(SocketAddr),
    Binding(SocketAddr),
    Accepting,
    Streaming(Option<SocketAddr>),
}

impl Doing {
    /// The error of it.
    pub(crate) fn failed(self, errno: Errno) -> io::Error {
        let why = why(self, errno.0);
        let text = match self {
            Doing::Connecting(peer) => format!("cannot connect to {peer}: {why}"),
            Doing::Binding(address) => format!("cannot listen at {address}: {why}"),
            Doing::Accepting => format!("cannot accept connections: {why}"),
            Doing::Streaming(Some(peer)) => format!("{why} (connection with {peer})"),
            Doing::Streaming(None) => why,
        };
        io::Error::new(kind(self, errno.0), StreamError { text, errno: errno.0 })
    }
}

fn kind(doing: Doing, errno: i32) -> ErrorKind {
    match (doing, errno) {
        (_, libc::EPROTO | libc::EOPNOTSUPP) => ErrorKind::InvalidData,
        // The device refused a request: the peer's memory is gone.
        (Doing::Streaming(_), libc::EIO) => ErrorKind::ConnectionReset,
        _ => io::Error::from_raw_os_error(errno).kind(),
    }
}

fn why(doing: Doing, errno: i32) -> String {
    let text = match (doing, errno) {
        (Doing::Connecting(_), libc::ECONNREFUSED) => "nobody listens there, or the listener refused",
        (Doing::Connecting(_), libc::ETIMEDOUT) => "no answer",
        (Doing::Connecting(_), libc::ECONNRESET) => "the peer ended while the connection was made",
        (Doing::Connecting(_), libc::EOPNOTSUPP) => "who listens there does not speak rsockets, version 1",
        (Doing::Binding(_), libc::EADDRINUSE) => "another program has the port",
        (Doing::Binding(_), libc::EADDRNOTAVAIL | libc::ENODEV) => "no device of this host has that address",
        (Doing::Streaming(_), libc::ECONNRESET | libc::EIO) => {
            "the peer ended without closing the connection: its program died, or cut it off"
        }
        (Doing::Streaming(_), libc::ETIMEDOUT) => "the peer does not answer: its host or the way there is gone",
        (Doing::Streaming(_), libc::EPIPE) => "sending has ended: the stream was shut down, or the peer closed it",
        (Doing::Streaming(_), libc::EPROTO) => "the peer broke the protocol",
        (_, libc::EPERM) => "a child of fork cannot use its parent's streams",
        _ => return Errno(errno).to_string(),
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_words() {
        let peer: SocketAddr = "192.0.2.1:7".parse().unwrap();
        let table = [
            (Doing::Connecting(peer), libc::ECONNREFUSED, ErrorKind::ConnectionRefused, "nobody listens"),
            (Doing::Connecting(peer), libc::EHOSTUNREACH, ErrorKind::HostUnreachable, "192.0.2.1:7"),
            (Doing::Binding(peer), libc::EADDRINUSE, ErrorKind::AddrInUse, "has the port"),
            (Doing::Streaming(Some(peer)), libc::ECONNRESET, ErrorKind::ConnectionReset, "died"),
            (Doing::Streaming(None), libc::EIO, ErrorKind::ConnectionReset, "died"),
            (Doing::Streaming(None), libc::EPIPE, ErrorKind::BrokenPipe, "shut down"),
            (Doing::Streaming(None), libc::ETIMEDOUT, ErrorKind::TimedOut, "does not answer"),
            (Doing::Streaming(None), libc::EPROTO, ErrorKind::InvalidData, "broke the protocol"),
        ];
        for (doing, errno, kind, words) in table {
            let error = doing.failed(Errno(errno));
            assert_eq!(error.kind(), kind);
            assert!(error.to_string().contains(words), "{error}");
            let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<StreamError>());
            assert_eq!(cause.map(StreamError::errno), Some(errno));
        }
    }
}

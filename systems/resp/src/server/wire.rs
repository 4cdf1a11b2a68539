//! A connection's bytes: plain, or through TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::{ServerConnection, StreamOwned};

/// One connection. No call waits.
pub(crate) enum RespWire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl RespWire {
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            RespWire::Plain(stream) => stream.read(bytes),
            RespWire::Tls(stream) => stream.read(bytes),
        }
    }

    /// Takes some of the bytes; zero if it can take none now.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            RespWire::Plain(stream) => stream.write(bytes),
            RespWire::Tls(stream) => stream.write(bytes),
        };
        match written {
            Err(error) if is_later(&error) => Ok(0),
            other => other,
        }
    }

    /// Sends what TLS has kept. Returns false if some of it has to wait.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let RespWire::Tls(stream) = self else { return Ok(true) };
        while stream.conn.wants_write() {
            match stream.conn.write_tls(&mut stream.sock) {
                Ok(_) => {}
                Err(error) if is_later(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// True if bytes may be there though the socket has none.
    pub(crate) fn keeps_bytes(&self) -> bool {
        matches!(self, RespWire::Tls(_))
    }

    /// Says goodbye, if TLS does.
    pub(crate) fn close(&mut self) {
        if let RespWire::Tls(stream) = self {
            stream.conn.send_close_notify();
            // The peer may be gone.
            let _ = self.flush();
        }
    }
}

impl AsFd for RespWire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            RespWire::Plain(stream) => stream.as_fd(),
            RespWire::Tls(stream) => stream.sock.as_fd(),
        }
    }
}

/// True if the call has to be repeated later.
pub(crate) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

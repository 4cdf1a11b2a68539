//! A connection's bytes: plain, through TLS, or by RDMA.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::{ServerConnection, StreamOwned};

use crate::valkey::ValkeyWire;

/// One connection. No call waits.
pub(crate) enum RespWire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
    Valkey(Box<ValkeyWire>),
}

impl RespWire {
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            RespWire::Plain(stream) => stream.read(bytes),
            RespWire::Tls(stream) => stream.read(bytes),
            RespWire::Valkey(wire) => wire.read(bytes),
        }
    }

    /// Takes some of the bytes; zero if it can take none now.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            RespWire::Plain(stream) => stream.write(bytes),
            RespWire::Tls(stream) => stream.write(bytes),
            RespWire::Valkey(wire) => wire.write(bytes),
        };
        match written {
            Err(error) if is_later(&error) => Ok(0),
            other => other,
        }
    }

    /// Takes notice of what its descriptor has told.
    pub(crate) fn look(&mut self) -> io::Result<()> {
        match self {
            RespWire::Valkey(wire) => wire.look(),
            RespWire::Plain(_) | RespWire::Tls(_) => Ok(()),
        }
    }

    /// Sends what TLS has kept. Returns false if some of it has to wait, or is on its way by RDMA.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        let stream = match self {
            RespWire::Plain(_) => return Ok(true),
            RespWire::Valkey(wire) => return Ok(wire.has_arrived()),
            RespWire::Tls(stream) => stream,
        };
        while stream.conn.wants_write() {
            match stream.conn.write_tls(&mut stream.sock) {
                Ok(_) => {}
                Err(error) if is_later(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// True if bytes may be there though the descriptor tells of none.
    pub(crate) fn keeps_bytes(&self) -> bool {
        !matches!(self, RespWire::Plain(_))
    }

    /// True if its descriptor tells of room for replies as of requests: by becoming readable.
    pub(crate) fn only_becomes_readable(&self) -> bool {
        matches!(self, RespWire::Valkey(_))
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
            RespWire::Valkey(wire) => wire.as_fd(),
        }
    }
}

/// True if the call has to be repeated later.
pub(crate) fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

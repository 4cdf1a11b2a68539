//! The two directions of a stream.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use rsocket::Errno;

use crate::attention::Attention;
use crate::end::{SharedTaskStream, failed, local_addr, peer_addr, poll_finish};

/// The reading half of a stream; [`RdmaStream::into_split`](crate::RdmaStream::into_split) makes it.
#[derive(Debug)]
pub struct RdmaReadHalf {
    stream: SharedTaskStream,
    attention: Attention,
}

/// The writing half of a stream. Dropping it ends our direction.
#[derive(Debug)]
pub struct RdmaWriteHalf {
    stream: SharedTaskStream,
    attention: Attention,
}

/// Halves of two streams are no stream.
#[derive(Debug, thiserror::Error)]
#[error("these halves are of two streams")]
pub struct ReuniteError(pub RdmaReadHalf, pub RdmaWriteHalf);

impl RdmaReadHalf {
    pub(crate) fn new(stream: SharedTaskStream, attention: Attention) -> RdmaReadHalf {
        RdmaReadHalf { stream, attention }
    }

    pub(crate) fn is_of_one_stream(&self, write: &RdmaWriteHalf) -> bool {
        Arc::ptr_eq(&self.stream, &write.stream)
    }

    /// The address of this end.
    ///
    /// # Errors
    /// None for a connected stream.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local_addr(&self.stream)
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// None for a connected stream.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        peer_addr(&self.stream)
    }

    /// As [`RdmaStream::poll_read_parts`](crate::RdmaStream::poll_read_parts).
    ///
    /// # Errors
    /// As there.
    pub fn poll_read_parts(&mut self, task: &mut Context<'_>, parts: &mut [IoSliceMut<'_>]) -> Poll<io::Result<usize>> {
        if parts.iter().all(|part| part.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        let found = match self.stream.try_recv(parts) {
            Err(Errno::AGAIN) if self.attention.looks_again(task) => Poll::Pending,
            Err(Errno::AGAIN) => self.stream.poll_recv(task, parts),
            found => Poll::Ready(found),
        };
        if found.is_ready() {
            self.attention.found();
        }
        found.map_err(|errno| failed(&self.stream, errno))
    }
}

impl RdmaWriteHalf {
    pub(crate) fn new(stream: SharedTaskStream, attention: Attention) -> RdmaWriteHalf {
        RdmaWriteHalf { stream, attention }
    }

    /// The address of this end.
    ///
    /// # Errors
    /// None for a connected stream.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        local_addr(&self.stream)
    }

    /// The address of the other end.
    ///
    /// # Errors
    /// None for a connected stream.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        peer_addr(&self.stream)
    }

    /// As [`RdmaStream::poll_write_parts`](crate::RdmaStream::poll_write_parts).
    ///
    /// # Errors
    /// As there.
    pub fn poll_write_parts(&mut self, task: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if parts.iter().all(|part| part.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        let sent = match self.stream.try_send(parts) {
            Err(Errno::AGAIN) if self.attention.looks_again(task) => Poll::Pending,
            Err(Errno::AGAIN) => self.stream.poll_send(task, parts),
            sent => Poll::Ready(sent),
        };
        if sent.is_ready() {
            self.attention.found();
        }
        sent.map_err(|errno| failed(&self.stream, errno))
    }

    /// As [`RdmaStream::poll_finish`](crate::RdmaStream::poll_finish).
    ///
    /// # Errors
    /// As there.
    pub fn poll_finish(&mut self, task: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_finish(&self.stream, task)
    }
}

impl Drop for RdmaWriteHalf {
    fn drop(&mut self) {
        // The other half of a whole stream is dropped next, which closes it.
        if Arc::strong_count(&self.stream) > 1 {
            self.stream.finish_sending();
        }
    }
}

//! `AsyncRead` and `AsyncWrite` of futures-io.

use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use crate::halves::{RdmaReadHalf, RdmaWriteHalf};
use crate::stream::RdmaStream;

macro_rules! async_read {
    ($stream:ty) => {
        impl AsyncRead for $stream {
            fn poll_read(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
                self.get_mut().poll_read_parts(task, &mut [IoSliceMut::new(bytes)])
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                task: &mut Context<'_>,
                parts: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                self.get_mut().poll_read_parts(task, parts)
            }
        }
    };
}

macro_rules! async_write {
    ($stream:ty) => {
        impl AsyncWrite for $stream {
            fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                self.get_mut().poll_write_parts(task, &[IoSlice::new(bytes)])
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                task: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.get_mut().poll_write_parts(task, parts)
            }

            /// Does nothing: bytes leave when they are written.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.get_mut().poll_finish(task)
            }
        }
    };
}

async_read!(RdmaStream);
async_read!(RdmaReadHalf);
async_write!(RdmaStream);
async_write!(RdmaWriteHalf);

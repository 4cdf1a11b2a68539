//! tokio's `AsyncRead` and `AsyncWrite`. As tokio's own streams they take part in its budget: a task that always finds
//! bytes leaves the thread to others now and then.

use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;

use crate::halves::{RdmaReadHalf, RdmaWriteHalf};
use crate::stream::RdmaStream;

/// Polls within the task's budget.
fn within_budget<T>(task: &mut Context<'_>, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    let budget = ready!(coop::poll_proceed(task));
    let polled = poll(task);
    if polled.is_ready() {
        budget.made_progress();
    }
    polled
}

macro_rules! async_read {
    ($stream:ty) => {
        impl AsyncRead for $stream {
            fn poll_read(self: Pin<&mut Self>, task: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                let stream = self.get_mut();
                within_budget(task, |task| {
                    let mut parts = [IoSliceMut::new(buf.initialize_unfilled())];
                    let len = ready!(stream.poll_read_parts(task, &mut parts))?;
                    buf.advance(len);
                    Poll::Ready(Ok(()))
                })
            }
        }
    };
}

macro_rules! async_write {
    ($stream:ty) => {
        impl AsyncWrite for $stream {
            fn poll_write(self: Pin<&mut Self>, task: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                let stream = self.get_mut();
                within_budget(task, |task| stream.poll_write_parts(task, &[IoSlice::new(bytes)]))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                task: &mut Context<'_>,
                parts: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let stream = self.get_mut();
                within_budget(task, |task| stream.poll_write_parts(task, parts))
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            /// Does nothing: bytes leave when they are written.
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.get_mut().poll_finish(task)
            }
        }
    };
}

async_read!(RdmaStream);
async_read!(RdmaReadHalf);
async_write!(RdmaStream);
async_write!(RdmaWriteHalf);

//! Byte streams over RDMA: what a program does with a TCP stream, it does with an [`RdmaStream`].
//!
//! ```no_run
//! use longarm_stream::{RdmaListener, RdmaStream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn server() -> std::io::Result<()> {
//! let listener = RdmaListener::bind("0.0.0.0:7471").await?;          // one side
//! let mut stream = listener.accept().await?;
//! stream.write_all(b"hello").await?;
//! # Ok(()) }
//!
//! # async fn client() -> std::io::Result<()> {
//! let mut stream = RdmaStream::connect("server.example:7471").await?; // the other
//! let mut greeting = [0; 5];
//! stream.read_exact(&mut greeting).await?;
//! # Ok(()) }
//! ```
//!
//! The protocol is that of rsockets, so the peer may be a program in C with `rsocket(7)`, or one under `librspreload`.
//! `docs/streams.md` has examples with tonic, axum and redis, and measurements.
//!
//! ```text
//!  stream · halves · end a connection, whole or in two owned halves
//!  listener              waits for connections
//!  config · address      sizes and times; names, which are resolved on a thread of their own
//!  attention             how long a task looks for news itself before the device's thread does
//!  tokio_io · futures_io the traits of the two worlds
//!  provider              refuses the devices of the system
//!  error                 what went wrong, in words
//! ```
//!
//! # Features
//! - `tokio` (on by default): `AsyncRead` and `AsyncWrite` of tokio.
//! - `futures-io`: those of futures-io, for other runtimes. Both can be on.
//! - `tonic`: what tonic's server asks of a connection.
//!
//! No feature chooses a runtime: the streams wake tasks of any.
#![deny(unsafe_code)]

mod address;
mod attention;
mod config;
mod end;
mod error;
#[cfg(feature = "futures-io")]
mod futures_io;
mod halves;
mod listener;
mod provider;
mod stream;
#[cfg(feature = "tokio")]
mod tokio_io;
#[cfg(feature = "tonic")]
mod tonic;

pub use crate::address::StreamAddress;
pub use crate::config::StreamConfig;
pub use crate::error::StreamError;
pub use crate::halves::{RdmaReadHalf, RdmaWriteHalf, ReuniteError};
pub use crate::listener::{IncomingStreams, RdmaListener};
pub use crate::stream::RdmaStream;
#[cfg(feature = "tonic")]
pub use crate::tonic::RdmaConnectInfo;

//! Requests and replies over RDMA: five ways to carry them, one meaning.
//!
//! A server has methods, and a client calls them. The server executes a request once at most, and the caller of a call that fails learns
//! whether it [was executed](Executed). Below, five [`Way`]s carry the messages: with WRITEs, READs and datagrams, as the
//! literature has found them. They run between processes of one host, over the wire, and on RDMA devices of the system.
//!
//! ```
//! use std::time::Duration;
//! use longarm_rpc::{Client, ClientOptions, Method, Methods, Server};
//!
//! const SAY: Method = Method::new("/echo.Echo/Say");
//!
//! # fn main() -> Result<(), longarm_rpc::Status> {
//! let echo = Methods::new("echo.Echo").direct(SAY, |request, reply| {
//!     reply.extend_from_slice(request);
//!     Ok(())
//! });
//! let server = Server::builder().add_service(echo)?.bind("127.0.0.1:0")?;
//!
//! let mut client = Client::connect(server.local_addr(), &ClientOptions::default())?;
//! assert_eq!(client.call(SAY, b"hello", Duration::from_secs(10))?, "hello");
//! # Ok(())
//! # }
//! ```
//!
//! [`Client`] is polled by its program. [`Channel`] is for asynchronous programs: tasks share it, generated clients use it,
//! and it is a [`tower_service::Service`] of [`Call`]s.
//!
//! # Features
//!
//! | feature | brings |
//! |---|---|
//! | `prost` (default) | typed calls; the generated code of `longarm-rpc-build` |
//! | `reflection`, `json` | servers that describe themselves; calls by name with JSON |
//! | `tower`, `tarpc`, `tonic` | repetition of calls that were not executed; services of tarpc; the same services over gRPC |
//! | `tls`, `shared-key` | ends that prove who they are before a session begins |
//! | `tracing`, `metrics` | spans and figures with OpenTelemetry's names |
//!
//! # Layers
//!
//! ```text
//!  typed                 messages of prost, tarpc, JSON
//!  channel, client       calls                           server      handlers, polling threads
//!  session               slots, numbers, deadlines: what a call means
//!  carrier               ring, herd, datagram, immediate, fetch
//!  link                  the few things that a session needs of RDMA
//!  verbs                 … over queue pairs              sim         … in the simulator
//! ```
#![forbid(unsafe_code)]

mod alarm;
mod auth;
mod carrier;
mod channel;
mod client;
mod code;
mod frame;
mod handshake;
mod link;
mod memory_sleep;
mod message;
mod metadata;
mod observe;
mod options;
mod published;
mod server;
mod service;
mod session;
mod session_memory;
#[cfg(any(test, feature = "sim"))]
#[doc(hidden)]
pub mod sim;
mod status;
#[cfg(test)]
mod testlink;
mod tuning;
mod verbs;
mod way;

pub use auth::AuthenticatedPeer;
#[cfg(feature = "tls")]
pub use auth::ClientTls;
#[cfg(feature = "shared-key")]
pub use auth::SharedSecret;
pub use channel::{Calling, Channel, ChannelStats, ConnectedChannel};
pub use client::{Client, ClientGroup, ClientStats, SessionId, SharedClient};
pub use code::{Code, Executed};
pub use message::{Request, Response};
pub use metadata::{MAX_METADATA_BYTES, Metadata};
pub use options::{ClientOptions, ServerOptions};
pub use published::{Published, PublishedSlice};
pub use server::{Server, ServerBuilder, ServerStats, Spawn};
pub use service::{Answer, AnswerFuture, BoxFuture, Call, IntoMethods, Method, Methods, Router, RunOn, number_of};
pub use session::{CallId, NotStarted};
pub use status::Status;
pub use tuning::VerbsTuning;
pub use way::{UnknownWay, Way};

// Generated code names this crate; that of the reflection service is inside it.
#[cfg(feature = "reflection")]
extern crate self as longarm_rpc;

mod typed;

pub use typed::*;

/// Entrances of the fuzz targets.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing {
    /// Packets to both ends of a session of datagrams; panics if a rule does not hold.
    pub fn hostile_packets(bytes: &[u8]) {
        crate::carrier::datagram::fuzzing::hostile_packets(bytes);
    }

    /// Bytes that may be a message, metadata or a key; panics if a rule does not hold.
    pub fn headers(bytes: &[u8]) {
        crate::carrier::fuzzing::headers(bytes);
    }

    /// Memory that may have records; panics if a rule does not hold.
    pub fn records(bytes: &[u8]) {
        crate::carrier::fuzzing::records(bytes);
    }
}

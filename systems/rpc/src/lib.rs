//! Requests and replies over RDMA: five ways to carry them, one meaning.
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
mod message;
mod metadata;
mod observe;
mod options;
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
pub use channel::{Calling, Channel, ChannelStats};
pub use client::{Client, ClientStats};
pub use code::{Code, Executed};
pub use message::{Request, Response};
pub use metadata::{MAX_METADATA_BYTES, Metadata};
pub use options::{ClientOptions, ServerOptions};
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

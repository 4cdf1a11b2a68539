//! Queue pairs: their builders, their connection and their end.
//!
//! ```text
//!  domain.rc(&cq) ─► QpBuilder ─build─► Unconnected ─connect─► QueuePair
//!  domain.uc(&cq)                       receives may be        everything
//!                                       posted
//!  domain.ud(&cq) ─► QpBuilder ─build─► UdQueuePair
//! ```
//!
//! `connect` is either manual, with the peer's [`ConnectionInfo`], or by address: see
//! [`connection`](crate::connection).

mod at_once;
mod builder;
mod connected;
mod connection;
mod connector;
mod core;
mod endpoint;
mod retry;
pub mod service;
mod unconnected;

pub use builder::QpBuilder;
pub use connected::QueuePair;
pub use connection::ConnectionInfo;
pub(crate) use connector::QpConnector;
pub(crate) use core::QueuePairCore;
pub use endpoint::{MulticastMembership, UdQueuePair};
pub use retry::Retry;
pub(crate) use service::{Connected, Rc, Service, Uc, Ud};
pub use unconnected::Unconnected;

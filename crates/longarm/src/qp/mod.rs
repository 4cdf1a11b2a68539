//! Queue pairs: from their building over the connection to their end.
//!
//! ```text
//!  domain.rc(&cq) ─► QpBuilder ─build─► Unconnected ─connect─► QueuePair
//!  domain.uc(&cq)                       receives may be        everything
//!                                       posted
//!  domain.ud(&cq) ─► QpBuilder ─build─► UdEndpoint
//! ```
//!
//! `connect` is either by hand, with the peer's [`ConnectionInfo`], or by address, by way of
//! [`connection`](crate::connection).

mod builder;
mod connected;
mod connection;
mod core;
mod endpoint;
mod pilot;
mod service;
mod unconnected;

pub use builder::{QpBuilder, Retry};
pub use connected::QueuePair;
pub(crate) use connected::result_word;
pub use connection::ConnectionInfo;
pub(crate) use core::{Posted, QpCore, post_recv};
pub use endpoint::{MulticastMembership, UdEndpoint};
pub(crate) use pilot::Pilot;
pub use service::{Connected, Rc, Service, Uc, Ud};
pub use unconnected::Unconnected;

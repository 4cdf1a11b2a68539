//! The hub's clients: sessions of attached processes, and single requests of commands.
//!
//! A device engine calls [`attach`] once per process. It finds or starts the hub of this user and
//! network namespace. The [`Session`] that it returns has a slot of the UDP port and the devices.
//! [`manager`] is for a process that manages connections. [`status`], [`devices`], [`shutdown`] and
//! [`up`] are for commands.
//!
//! ```text
//!   session, manager         the two kinds of sessions
//!     └─ hub_connection      reconnects when the hub dies
//!          └─ hub_link       one descriptor for socket or attempt
//!               └─ connector connects, starts a hub, says hello
//! ```
//!
//! Outside this module: it reads no packet. The slot's socket is the caller's.

mod connector;
mod error;
mod hub_connection;
mod hub_link;
mod introductions;
pub mod manager;
mod options;
mod query;
mod session;

pub use crate::message::IntroductionRefusal;
pub use error::AttachError;
pub use introductions::{Introduction, RequestedBy, ShmLinkOffer, ShmOffer};
pub use options::AttachOptions;
pub use query::{devices, ping, runtime_dir, shutdown, status, up};
pub use session::{Session, SessionEvent, SlotSocket, attach};

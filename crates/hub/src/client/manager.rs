//! The session of a process that manages connections: MADs, ports and closing messages.
//!
//! ```no_run
//! use longarm_hub::client::{AttachOptions, manager};
//! use std::time::Instant;
//!
//! let mut session = manager::manage(&AttachOptions::default())?;
//! let options = manager::BindOptions::default();
//! let bound = session.bind(0x0106, "0.0.0.0:7471".parse()?, options)?;
//! session.listen(bound.token)?;
//! // When `session.poll_fd()` is readable:
//! let wake_at_the_latest = session.maintain(Instant::now());
//! while let Some(event) = session.next_event() {
//!     println!("{event:?}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! When the hub dies the session finds or starts another one, and tells it its number, ports and closing messages.
//!
//! Outside this module: it does not look into MADs.

mod error;
mod inbound;
mod outgoing;
mod ports;
mod session;
mod types;

pub use crate::mad::AddressedMad;
pub use error::PortBindError;
pub use session::{ManagerSession, manage};
pub use types::{BindOptions, BoundPort, ManagerCounters, ManagerEvent};

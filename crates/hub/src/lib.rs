//! The control plane: one small process per user and network namespace, and its clients.
//!
//! The *hub* serves Longarm as the kernel's driver serves an RDMA device. It owns UDP port 4791 and
//! gives each process a part of it (a *slot*: the destination QPNs with one high byte, see
//! [`udp::PortGroup`]). It knows the devices, and it notices when a process ends. It handles no
//! payload; packets reach a process without it. For processes that manage connections it carries
//! the MADs of QP1 and keeps the table of ports in use. It also sends the closing messages of those
//! that die ([`client::manager`]). It introduces processes of its user that want to share memory
//! ([`Session::introduce`](client::Session::introduce)).
//!
//! ```no_run
//! use longarm_hub::client::{AttachOptions, SessionEvent, attach};
//! use std::time::Instant;
//!
//! let mut session = attach(&AttachOptions::default())?;
//! let receiver = udp::RxSocket::new(session.slots()[0].socket.try_clone()?)?;
//! println!("QPNs {:#04x}0000 to {0:#04x}ffff are ours", session.slot());
//! // In a background thread, when `session.poll_fd()` is readable:
//! let wake_at_the_latest = session.maintain(Instant::now());
//! while let Some(event) = session.next_event() {
//!     if let SessionEvent::DevicesChanged(devices) = event {
//!         println!("now there are {} devices", devices.len());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The death of a process
//!
//! | process | consequence |
//! |---|---|
//! | a client | The kernel tells the hub (by the connection, or by a `pidfd` if a child has a copy of it). The hub closes its slots, which other clients get only after all free ones. It frees its ports and sends its closing messages. |
//! | the hub | The sockets stay open in the `keeper`, and packets still arrive. The clients find or start a new hub, which takes the sockets over from the first of them. Each keeps its slots, ports and closing messages. |
//! | hub and clients | The kernel closes everything; the next hub starts with nothing. |
//! | a client is stopped for long | It keeps its slot if the hub lives. If the hub dies in the meantime, its slot is the last to be given to another client. |
//!
//! # Modules
//!
//! [`client`] is for programs, [`daemon`] is the hub, [`embedded`] puts it into every program, and
//! `launch` starts it. Hub and clients share [`message`] and `mad` (the protocol), `channel` (its transport),
//! `rendezvous` (the socket's directory), [`record`], [`status`], [`counters`] and `closing_messages`.
//!
//! Outside this crate: it neither sends nor reads an RDMA packet of a client, and
//! knows no queue pairs. The one exception is QP1: the connection manager's messages
//! (MADs) for all processes arrive in the hub's own slot 0, and it passes them on. Only the processes interpret
//! them.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![deny(unsafe_code)]

mod channel;
pub mod client;
mod closing_messages;
pub mod counters;
pub mod daemon;
pub mod embedded;

mod launch;
mod mad;
pub mod message;
pub mod record;
mod rendezvous;

pub mod status;
mod sys;
#[cfg(feature = "testing")]
#[doc(hidden)]
#[allow(clippy::disallowed_methods, reason = "tests obey their caller")]
pub mod testing;

pub use counters::{CounterPage, Snapshot};
pub use launch::HUB_VARIABLE;
pub use mad::{AddressedMad, MAD_BYTES};
pub use record::{DeviceRecord, Guid, preferred};
pub use rendezvous::{RUNTIME_DIR_VARIABLE, RendezvousError};
pub use status::HubStatus;

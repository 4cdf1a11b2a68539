//! The control plane: one small process per user and network namespace, and its clients.
//!
//! The *hub* is to Longarm what the kernel's driver is to an RDMA device. It owns UDP port
//! 4791 and gives each process a part of it (a *slot*: the destination QPNs with one high
//! byte, see [`udp::PortGroup`]), it knows the devices, and it notices when a process ends. It
//! never sees payload; packets reach a process without it. For processes that manage
//! connections it carries the MADs of QP1, keeps the table of ports in use, and sends the last
//! messages of those that die ([`client::manager`]). It introduces processes of its user to each
//! other that want to share memory ([`Session::introduce`](client::Session::introduce)).
//!
//! ```no_run
//! use longarm_hub::client::{AttachOptions, SessionEvent, attach};
//! use std::time::Instant;
//!
//! let mut session = attach(&AttachOptions::default())?;
//! let receiver = udp::RxSocket::new(session.slots()[0].socket.try_clone()?)?;
//! println!("QPNs {:#04x}0000 to {0:#04x}ffff are ours", session.slot());
//! // In a background thread, whenever `session.poll_fd()` is readable:
//! let wake_at_the_latest = session.maintain(Instant::now());
//! while let Some(event) = session.next_event() {
//!     if let SessionEvent::DevicesChanged(devices) = event {
//!         println!("now there are {} devices", devices.len());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who may die, and what happens then
//!
//! | who | what happens |
//! |---|---|
//! | a client | the kernel tells the hub (the connection, or a `pidfd` if a child has a copy of it); its slots are closed and rest before somebody else gets them; its ports are free, and its last messages are sent |
//! | the hub | the sockets live on in the `keeper`, packets keep flowing; the clients find or start a new hub, which takes the sockets over from the first of them, and each keeps its slots, ports and last messages |
//! | hub and clients | the kernel closes everything; the next hub begins afresh |
//! | a client is stopped for long | it keeps its slot if the hub lives; if the hub dies meanwhile, its slot is the last to be given to somebody else |
//!
//! # Where things are
//!
//! [`client`] is for programs, [`daemon`] is the hub, [`embedded`] puts it into every program,
//! `launch` starts it. Between them: [`message`] is the protocol, `channel` carries it,
//! `rendezvous` is the place to meet. What both know: [`record`], [`status`], [`counters`].
//! What only the hub needs: `slots`, `keeper`, `identity`.
//!
//! What this crate does not do: it neither sends nor reads an RDMA packet of a client, and
//! knows nothing of queue pairs. The one exception is QP1: the connection manager's messages
//! (MADs) of all processes arrive in the hub's own slot 0, and it hands them on. What they mean
//! is up to the processes.
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
pub use mad::{MAD_BYTES, MadPacket};
pub use record::{DeviceRecord, Guid, preferred};
pub use rendezvous::{RUNTIME_DIR_VARIABLE, RendezvousError};
pub use status::Status;

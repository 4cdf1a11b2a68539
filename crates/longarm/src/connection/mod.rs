//! Connections by address.
//!
//! A program listens on an address and a port, and another connects to them. Each of the two gets a queue
//! pair that is connected to the other's: a [`Connection`]. The connection manager of the hosts does the
//! rest, as everywhere in RDMA. So the other end may be a program that uses `rdma_cm`, or the Linux kernel.
//! Its ports are its own: they have nothing to do with those of TCP and UDP.
//!
//! ```
//! use std::time::Duration;
//! use longarm::{Endpoint, Listener};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # const SECOND: Duration = Duration::from_secs(10);
//! let listener = Listener::bind("127.0.0.1:0").wait(SECOND)?;             // or "0.0.0.0:7471"
//! let calling = Endpoint::connect(listener.local_addr(), b"hello");       // in life, in another process
//!
//! let incoming = listener.incoming().wait(SECOND)?;
//! assert!(incoming.private_data().starts_with(b"hello"));
//! let endpoint = incoming.endpoint()?;                                     // on the device it came to
//! let message = endpoint.recv(endpoint.allocate(64)?).start();            // before there is anything to receive
//! let server = incoming.accept(endpoint, b"welcome").wait(SECOND)?;
//!
//! let client = calling.wait(SECOND)?;                                     // or calling.await?
//! assert!(client.private_data().starts_with(b"welcome"));
//! client.send_inline(b"a message").wait(SECOND)?;
//! assert_eq!(&message.wait(SECOND)?[..], b"a message");
//!
//! drop(client);
//! assert!(server.disconnected().wait(SECOND));
//! # Ok(())
//! # }
//! ```
//!
//! # Which device
//!
//! A queue pair lives on a device, and the addresses decide on which: packets to 127.0.0.1 leave from the
//! loop-back device, packets to a host of the network from an interface of that network. The three kinds
//! of [`Connectable`] differ in how they get the right device:
//!
//! * an [`Endpoint`](crate::Endpoint), made by [`Endpoint::connect`](crate::Endpoint::connect),
//!   [`Route::rc`] or [`Incoming::endpoint`]: has everything of its own, on the right device;
//! * a [`QpBuilder`](crate::QpBuilder): the queue pair is built on the right device, in your domain;
//! * an [`Unconnected`](crate::Unconnected) queue pair, with receives posted: has to be on it already, by
//!   [`QpBuilder::on`](crate::QpBuilder::on) and [`Route::open_device`] or [`Incoming::open_device`].
//!
//! # The end
//!
//! Dropping a connection ends it. Its peer learns of that, as it does if the program is killed: then the hub
//! tells the peer in its place. [`Connection::disconnected`] waits for it. Messages that had arrived by then
//! are still delivered; everything else is flushed.

mod accept;
mod attempt;
mod attempts;
mod bind;
mod cm_connection;
mod connectable;
mod connected;
mod connecting;
mod dispatch;
mod incoming;
mod listener;
mod lookup;
mod route;
mod target;
mod waiters;

pub use accept::Accept;
pub use bind::Bind;
pub use connectable::Connectable;
pub use connected::{Connection, Disconnected};
pub use connecting::{Connecting, connect};
pub use incoming::Incoming;
pub use listener::{IncomingStream, Listener, NextIncoming};
pub use lookup::{Lookup, UdPeer};
pub use route::{FindRoute, Route};
pub use target::Target;

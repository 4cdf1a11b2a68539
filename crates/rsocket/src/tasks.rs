//! Streams for tasks: calls that never wait, and wake the task when there is news.
//!
//! ```text
//!  stream    a connection, and how one is made
//!  listener  waits for connections
//!  sizes     of streams
//!  manager   the thread that makes and ends connections: what it does may take milliseconds
//! ```
//!
//! These sockets have no descriptors, and nothing of this module blocks. A connection is the same as one of the
//! [calls by descriptor](crate::connect): the peer cannot tell.

mod listener;
mod manager;
mod sizes;
mod stream;

pub use listener::TaskListener;
pub use sizes::TaskSettings;
pub use stream::TaskStream;

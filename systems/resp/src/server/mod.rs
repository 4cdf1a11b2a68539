//! The door's thread: it waits for all connections with epoll, executes what has arrived, and sends the replies of a round together.
//! One thread executes all commands, so a command of one client never comes between two of another's transaction.
//!
//! ```text
//!  open      the door's settings, its start and its end
//!  reactor   the loop
//!  accept    connections that arrive          serve   bytes of one connection: requests in, replies out
//!  wire      plain TCP, or TLS
//! ```

mod accept;
mod open;
mod reactor;
mod serve;
mod wire;

pub use open::{RespError, RespOptions, RespServer};

//! The client's side.

mod connect;
mod group;
mod members;
mod poll;
mod session;

pub(crate) use connect::random;
pub use group::{ClientGroup, SessionId};
pub use poll::{Client, ClientStats};

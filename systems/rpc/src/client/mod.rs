//! The client's side.

mod connect;
mod group;
mod members;
mod poll;
mod session;
mod shared;

pub(crate) use connect::random;
pub use group::{ClientGroup, SessionId};
pub use poll::{Client, ClientStats};
pub use shared::SharedClient;

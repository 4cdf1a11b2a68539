//! The client's side.

mod connect;
mod poll;

pub(crate) use connect::random;
pub use poll::{Client, ClientStats};

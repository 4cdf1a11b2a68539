//! Sessions: a client and a server, and the calls between them. The meaning of a call is decided here, whatever carries it.

mod client;
mod server;
mod withdrawn;

pub use client::{CallId, NotStarted};
pub(crate) use client::{ClientSession, Finished, NewCall, ReplyBody};
pub(crate) use server::{Arrived, ServerSession};
pub(crate) use withdrawn::Withdrawn;

/// Sizes on which both ends of a session agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionLimits {
    /// Calls at a time.
    pub(crate) slots: u16,
    /// The longest message, with its metadata.
    pub(crate) max_message_bytes: usize,
}

/// The body of a message that has arrived.
#[derive(Debug)]
pub(crate) enum Body<B> {
    /// It is in the session's own buffer, until the next one.
    Short,
    /// It is in memory of its own.
    Long(B),
}

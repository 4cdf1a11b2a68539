//! The way *herd*: a request is a WRITE over an unreliable connection, a reply is a datagram.
//!
//! The client WRITEs a checked record into its slot of the server's memory, which the server polls. Both directions may
//! lose messages: the client keeps each request and WRITEs it again until the reply is there. The server's session knows a
//! request that comes again by its number and sends the same reply. A datagram is
//!
//! ```text
//!  | token 8 | header 24 | body |
//! ```
//! where the token is the session's. (Kalia, Kaminsky, Andersen: "Using RDMA Efficiently for Key-Value Services",
//! SIGCOMM 2014, section 4; "Design Guidelines for High Performance RDMA Systems", USENIX ATC 2016.)

mod client;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use client::HerdClient;
pub(crate) use server::HerdServer;

use crate::carrier::record::RECORD_OVERHEAD_BYTES;
use crate::frame::HEADER_BYTES;

const TOKEN_BYTES: usize = 8;

/// Sizes on which both ends of a session agree, and its token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HerdSession {
    pub(crate) slots: u16,
    /// Length of a slot in the server's area, a multiple of 8.
    pub(crate) slot_bytes: u64,
    /// The longest datagram.
    pub(crate) datagram_bytes: usize,
    /// A random number: datagrams with another token are not of this session.
    pub(crate) token: u64,
}

impl HerdSession {
    pub(crate) fn request_inline_bytes(&self) -> usize {
        (self.slot_bytes - RECORD_OVERHEAD_BYTES) as usize
    }

    pub(crate) fn reply_inline_bytes(&self) -> usize {
        self.datagram_bytes - TOKEN_BYTES - HEADER_BYTES
    }
}

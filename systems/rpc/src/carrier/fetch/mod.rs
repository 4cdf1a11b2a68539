//! The way *fetch*: a request is a WRITE, and the client fetches the reply with READs.
//!
//! The server's memory for a client, which the client WRITEs, and that which the client READs:
//!
//! ```text
//!  slot of a request:  | asked 8 | record: header 24, body, padding, tail 8 |
//!  slot of a reply:    | checked record: header 24, body, padding, check 8  |
//! ```
//! The server polls the requests and stores its replies: it sends nothing. The client READs the first 256 bytes of the
//! reply's slot, and then the rest of a longer reply. The check shows whether a READ met the reply half stored. After
//! five READs without the reply the client asks the server to send it: it WRITEs the request's number to *asked*, and the
//! server then WRITEs the reply into a record of the client's memory. The server decides when it has the reply: so the reply is in
//! one place of the two, and a client that has asked goes on fetching with growing pauses. The client asks for the
//! next replies in advance, with the requests themselves, and then tries fetching again. (Su, Zhang, Chen, Hu, Hou, Wu:
//! "RFP: When RPC is Faster than Server-Bypass with RDMA", EuroSys 2017, section 3.)

mod client;
mod server;
#[cfg(test)]
mod tests;

pub(crate) use client::FetchClient;
pub(crate) use server::FetchServer;

use crate::carrier::record::RECORD_OVERHEAD_BYTES;

/// Length of the word *asked*.
const ASKED_BYTES: u64 = 8;

/// Sizes on which both ends of a session agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FetchSession {
    pub(crate) slots: u16,
    /// Length of a request's slot in the area that the client writes, a multiple of 8.
    pub(crate) request_slot_bytes: u64,
    /// Length of a reply's slot in the area that the client reads, and in the client's own; a multiple of 8.
    pub(crate) reply_slot_bytes: u64,
}

impl FetchSession {
    pub(crate) fn request_inline_bytes(&self) -> usize {
        (self.request_slot_bytes - ASKED_BYTES - RECORD_OVERHEAD_BYTES) as usize
    }

    pub(crate) fn reply_inline_bytes(&self) -> usize {
        (self.reply_slot_bytes - RECORD_OVERHEAD_BYTES) as usize
    }

    fn request_at(&self, slot: u16) -> u64 {
        u64::from(slot) * self.request_slot_bytes
    }

    fn reply_at(&self, slot: u16) -> u64 {
        u64::from(slot) * self.reply_slot_bytes
    }
}

/// The word *asked* for the reply to this request.
fn asked_word(number: u32) -> u64 {
    u64::from(number) | 1 << 32
}

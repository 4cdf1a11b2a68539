//! The calls that a measurement makes.

use longarm_rpc::{Method, Published, PublishedSlice, Status};

use super::case::BenchCase;
use super::server::{ECHO, FILL};
use crate::error::Error;

/// Requests up to this length are copied for each call. An echo always is: its reply has to be copied, too.
const COPIED_BYTES: usize = 4096;

/// One kind of call.
pub(super) struct BenchCall {
    pub(super) method: Method,
    pub(super) body: Vec<u8>,
    /// The body, if it is too long to be copied for each call.
    pub(super) published: Option<PublishedSlice>,
    reply_bytes: usize,
}

impl BenchCall {
    pub(super) fn of(case: &BenchCase) -> BenchCall {
        let mut body = vec![7; case.size_bytes as usize];
        let reply_bytes = case.reply_bytes as usize;
        if case.is_echo() {
            return BenchCall { method: ECHO, published: None, body, reply_bytes };
        }
        if let Some(first) = body.first_chunk_mut() {
            *first = case.reply_bytes.to_le_bytes();
        }
        let published = (body.len() > COPIED_BYTES).then(|| Published::new(body.clone()).into());
        BenchCall { method: FILL, body, published, reply_bytes }
    }

    /// Whether it is the right reply.
    pub(super) fn is_answered(&self, reply: &Result<&[u8], Status>) -> bool {
        reply.as_ref().is_ok_and(|reply| reply.len() == self.reply_bytes)
    }

    /// An error unless it is the right reply.
    pub(super) fn check(&self, reply: Result<&[u8], Status>) -> Result<(), Error> {
        let reply = reply?;
        if reply.len() == self.reply_bytes {
            return Ok(());
        }
        Err(Error::Peer(format!("a reply has {} bytes in place of {}", reply.len(), self.reply_bytes)))
    }
}

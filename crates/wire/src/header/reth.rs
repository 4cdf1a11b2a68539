//! RDMA extended transport header (IB specification 9.3).

use crate::bytes::{put, u32_at, u64_at};
use crate::id::RKey;

/// The remote memory of a WRITE or READ request, for the whole message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reth {
    /// First address in the responder's memory region.
    pub addr: u64,
    /// The responder's key.
    pub rkey: RKey,
    /// Length of the whole message.
    pub len_bytes: u32,
}

impl Reth {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// Reads every field.
    #[inline]
    pub fn decode(bytes: &[u8; Reth::LEN]) -> Reth {
        Reth { addr: u64_at(bytes, 0), rkey: RKey(u32_at(bytes, 8)), len_bytes: u32_at(bytes, 12) }
    }

    /// Writes every field.
    #[inline]
    pub fn encode(&self) -> [u8; Reth::LEN] {
        let mut bytes = [0; Reth::LEN];
        put(&mut bytes, 0, self.addr.to_be_bytes());
        put(&mut bytes, 8, self.rkey.0.to_be_bytes());
        put(&mut bytes, 12, self.len_bytes.to_be_bytes());
        bytes
    }
}

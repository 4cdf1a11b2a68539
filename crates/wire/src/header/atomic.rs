//! Atomic extended transport headers of request and response (IB specification 9.3).

use crate::bytes::{put, u32_at, u64_at};
use crate::id::RKey;

/// The target (eight bytes of remote memory) and the operands of an atomic request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtomicEth {
    /// Address in the responder's memory region; a multiple of 8.
    pub addr: u64,
    /// The responder's key.
    pub rkey: RKey,
    /// CompareSwap: the new value. FetchAdd: the addend.
    pub swap_or_add: u64,
    /// CompareSwap: the expected value. FetchAdd: unused.
    pub compare: u64,
}

impl AtomicEth {
    /// Bytes on the wire.
    pub const LEN: usize = 28;

    /// Reads every field.
    #[inline]
    pub fn decode(bytes: &[u8; AtomicEth::LEN]) -> AtomicEth {
        AtomicEth {
            addr: u64_at(bytes, 0),
            rkey: RKey(u32_at(bytes, 8)),
            swap_or_add: u64_at(bytes, 12),
            compare: u64_at(bytes, 20),
        }
    }

    /// Writes every field.
    #[inline]
    pub fn encode(&self) -> [u8; AtomicEth::LEN] {
        let mut bytes = [0; AtomicEth::LEN];
        put(&mut bytes, 0, self.addr.to_be_bytes());
        put(&mut bytes, 8, self.rkey.0.to_be_bytes());
        put(&mut bytes, 12, self.swap_or_add.to_be_bytes());
        put(&mut bytes, 20, self.compare.to_be_bytes());
        bytes
    }
}

/// The response to an atomic request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AtomicAckEth {
    /// The value before the operation.
    pub original: u64,
}

impl AtomicAckEth {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Reads the value.
    #[inline]
    pub fn decode(bytes: &[u8; AtomicAckEth::LEN]) -> AtomicAckEth {
        AtomicAckEth { original: u64::from_be_bytes(*bytes) }
    }

    /// Writes the value.
    #[inline]
    pub fn encode(&self) -> [u8; AtomicAckEth::LEN] {
        self.original.to_be_bytes()
    }
}

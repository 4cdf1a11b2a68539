//! Datagram extended transport header (IB specification 9.3).

use crate::bytes::{put, put_u24, u24_at, u32_at};
use crate::id::{QKey, Qpn};

/// The sender of a UD packet and its queue key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deth {
    /// Must equal the receiving queue pair's key.
    pub qkey: QKey,
    /// The sending queue pair.
    pub src_qpn: Qpn,
}

impl Deth {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Reads every field; the reserved byte is ignored.
    #[inline]
    pub fn decode(bytes: &[u8; Deth::LEN]) -> Deth {
        Deth { qkey: QKey(u32_at(bytes, 0)), src_qpn: Qpn::new(u24_at(bytes, 5)) }
    }

    /// Writes every field.
    #[inline]
    pub fn encode(&self) -> [u8; Deth::LEN] {
        let mut bytes = [0; Deth::LEN];
        put(&mut bytes, 0, self.qkey.0.to_be_bytes());
        put_u24(&mut bytes, 5, self.src_qpn.get());
        bytes
    }
}

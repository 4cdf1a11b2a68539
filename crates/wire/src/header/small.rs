//! Headers of one 32-bit word: immediate data and the key to invalidate (IB specification
//! 9.3), and the shared receive queue of XRC (Annex A14).

use crate::bytes::{put_u24, u24_at};
use crate::id::RKey;

/// Immediate data, in host order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ImmDt(pub u32);

impl ImmDt {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Reads the value.
    #[inline]
    pub fn decode(bytes: &[u8; ImmDt::LEN]) -> ImmDt {
        ImmDt(u32::from_be_bytes(*bytes))
    }

    /// Writes the value.
    #[inline]
    pub fn encode(&self) -> [u8; ImmDt::LEN] {
        self.0.to_be_bytes()
    }
}

/// Invalidate extended transport header: the key that a SEND with invalidate revokes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ieth(pub RKey);

impl Ieth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Reads the key.
    #[inline]
    pub fn decode(bytes: &[u8; Ieth::LEN]) -> Ieth {
        Ieth(RKey(u32::from_be_bytes(*bytes)))
    }

    /// Writes the key.
    #[inline]
    pub fn encode(&self) -> [u8; Ieth::LEN] {
        self.0.0.to_be_bytes()
    }
}

/// XRC extended transport header: the shared receive queue that an XRC request addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XrcEth {
    /// Number of the shared receive queue, 24 bits.
    pub srq: u32,
}

impl XrcEth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Reads the number; the reserved byte is ignored.
    #[inline]
    pub fn decode(bytes: &[u8; XrcEth::LEN]) -> XrcEth {
        XrcEth { srq: u24_at(bytes, 1) }
    }

    /// Writes the number; only the low 24 bits fit.
    #[inline]
    pub fn encode(&self) -> [u8; XrcEth::LEN] {
        let mut bytes = [0; XrcEth::LEN];
        put_u24(&mut bytes, 1, self.srq);
        bytes
    }
}

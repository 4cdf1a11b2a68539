//! ACK extended transport header (IB specification 9.3).

use crate::bytes::{put_u24, u24_at};
use crate::syndrome::Syndrome;

/// The responder's answer: an ACK or NAK, and credits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Aeth {
    /// ACK with credits, RNR NAK with its timer, or NAK with its code.
    pub syndrome: Syndrome,
    /// Message sequence number: messages that the responder has completed, 24 bits, circular.
    pub msn: u32,
}

impl Aeth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Reads every field.
    #[inline]
    pub fn decode(bytes: &[u8; Aeth::LEN]) -> Aeth {
        Aeth { syndrome: Syndrome(bytes[0]), msn: u24_at(bytes, 1) }
    }

    /// Writes every field; only the low 24 bits of `msn` fit.
    #[inline]
    pub fn encode(&self) -> [u8; Aeth::LEN] {
        let mut bytes = [0; Aeth::LEN];
        bytes[0] = self.syndrome.0;
        put_u24(&mut bytes, 1, self.msn);
        bytes
    }
}

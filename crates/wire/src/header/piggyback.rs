//! An ACK inside a request: a header of Longarm's own, used only between two ends that both support it
//! (see [`Opcode::with_acknowledge`](crate::Opcode::with_acknowledge)).

use super::Aeth;
use crate::bytes::{put_u24, u24_at};
use crate::id::Psn;

/// The contents of an ACK that travels inside a request.
///
/// ```text
///  byte 0..4   4          5..8
///  | AETH    | reserved | PSN that is acknowledged |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Piggyback {
    /// ACK or NAK, and the MSN.
    pub aeth: Aeth,
    /// The PSN that a separate ACK packet would have.
    pub psn: Psn,
}

impl Piggyback {
    /// Bytes on the wire.
    pub const LEN: usize = Aeth::LEN + 4;

    /// Reads every field.
    #[inline]
    pub fn decode(bytes: &[u8; Piggyback::LEN]) -> Piggyback {
        let [a, b, c, d, ..] = *bytes;
        Piggyback { aeth: Aeth::decode(&[a, b, c, d]), psn: Psn::new(u24_at(bytes, 5)) }
    }

    /// Writes every field.
    #[inline]
    pub fn encode(&self) -> [u8; Piggyback::LEN] {
        let mut bytes = [0; Piggyback::LEN];
        bytes[..Aeth::LEN].copy_from_slice(&self.aeth.encode());
        put_u24(&mut bytes, 5, self.psn.get());
        bytes
    }
}

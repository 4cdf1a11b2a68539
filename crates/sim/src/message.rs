//! Messages as the applications know them: what they consist of and whom they are for.

use transport::{Mtu, Payload, Sge, Sgl};
use wire::{Psn, RKey};

use crate::area::{Area, AreaPiece, total_len};

/// The source of a message's bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Content {
    /// Pieces of the sender's source area, which never changes.
    Pieces(Vec<AreaPiece>),
    /// Handed over when it was posted.
    Inline(Vec<u8>),
}

impl Content {
    pub(crate) fn len(&self) -> usize {
        match self {
            Content::Pieces(pieces) => total_len(pieces),
            Content::Inline(bytes) => bytes.len(),
        }
    }

    /// The bytes that the receiver must see.
    pub(crate) fn bytes(&self, source: &Area) -> Vec<u8> {
        match self {
            Content::Pieces(pieces) => source.model_pieces(pieces),
            Content::Inline(bytes) => bytes.clone(),
        }
    }

    /// As a work request names it.
    pub(crate) fn payload(&self, source: &Area) -> Payload {
        match self {
            Content::Pieces(pieces) => Payload::Sgl(sgl(pieces, source)),
            Content::Inline(bytes) => Payload::Inline(bytes.as_slice().into()),
        }
    }
}

/// Pieces of an area as a list of a work request.
pub(crate) fn sgl(pieces: &[AreaPiece], area: &Area) -> Sgl {
    pieces.iter().map(|piece| area.sge(*piece)).collect::<Vec<Sge>>().into()
}

/// A message that uses a receive work request of its receiver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SentMessage {
    /// The send work request.
    pub(crate) number: u64,
    /// Packets that the sender had sent before.
    pub(crate) first_packet: u64,
    pub(crate) packets: u64,
    pub(crate) content: Content,
    /// A WRITE: its bytes go elsewhere.
    pub(crate) is_write: bool,
    pub(crate) imm: Option<u32>,
    pub(crate) invalidates: Option<RKey>,
    pub(crate) solicited: bool,
    /// The last ticket written before it.
    pub(crate) ticket: u64,
    /// UD: the only queue pair that may receive it, if it is not for the group.
    pub(crate) only: Option<usize>,
}

impl SentMessage {
    /// Whether packet number `packet` of the sender is one of it.
    pub(crate) fn holds(&self, packet: u64) -> bool {
        (self.first_packet..self.first_packet + self.packets).contains(&packet)
    }
}

/// Packets that `len` bytes take.
pub(crate) fn packets(len: usize, mtu: Mtu) -> u64 {
    len.div_ceil(mtu.bytes() as usize).max(1) as u64
}

/// The number of the packet with `psn`, counted from the first. Runs are shorter than the circle.
pub(crate) fn packet_number(psn: Psn, first: Psn) -> u64 {
    u64::from(psn.get().wrapping_sub(first.get()) & 0xff_ffff)
}

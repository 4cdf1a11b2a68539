//! FLUSH extended transport header (IB specification, Annex A19).
//!
//! ```text
//!  31 .......... 6 | 5 4   | 3 2 1 0
//!  reserved        | level | placement
//! ```

use crate::bytes::{put, u32_at};

bitflags::bitflags! {
    /// The placement that a FLUSH guarantees, with the bits of `enum ibv_placement_type`.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct FlushPlacement: u8 {
        /// All earlier writes are visible to every reader of the memory.
        const GLOBAL = 1;
        /// All earlier writes survive a loss of power.
        const PERSISTENT = 1 << 1;
    }
}

/// The extent of a FLUSH, numbered as `enum ibv_selectivity_level`; 2 bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct FlushLevel(pub u8);

impl FlushLevel {
    /// The range that the RETH names.
    pub const RANGE: FlushLevel = FlushLevel(0);
    /// The whole memory region of the RETH's key.
    pub const MR: FlushLevel = FlushLevel(1);
}

/// FLUSH extended transport header; a RETH follows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Feth {
    /// The wanted placement; bits without a name are kept.
    pub placement: FlushPlacement,
    /// The extent of memory that it covers.
    pub level: FlushLevel,
}

const PLACEMENT_MASK: u32 = 0xf;
const LEVEL_SHIFT: u32 = 4;
const LEVEL_MASK: u32 = 0x3;

impl Feth {
    /// Bytes on the wire.
    pub const LEN: usize = 4;

    /// Reads both fields; the reserved bits are ignored.
    #[inline]
    pub fn decode(bytes: &[u8; Feth::LEN]) -> Feth {
        let bits = u32_at(bytes, 0);
        Feth {
            placement: FlushPlacement::from_bits_retain((bits & PLACEMENT_MASK) as u8),
            level: FlushLevel((bits >> LEVEL_SHIFT & LEVEL_MASK) as u8),
        }
    }

    /// Writes the bits of both fields that fit.
    #[inline]
    pub fn encode(&self) -> [u8; Feth::LEN] {
        let placement = u32::from(self.placement.bits()) & PLACEMENT_MASK;
        let level = u32::from(self.level.0) & LEVEL_MASK;
        let mut bytes = [0; Feth::LEN];
        put(&mut bytes, 0, (placement | level << LEVEL_SHIFT).to_be_bytes());
        bytes
    }
}

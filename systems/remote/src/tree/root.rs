//! The record from which readers of a tree start.
//!
//! ```text
//!  0         8                  16     24      64     72
//! | pointer | magic tree check | salt | zeros | CRC64 of 8..64 |
//! ```
//! The first word leads to the root node. It changes alone; the rest never does. The places of magic and CRC64 are those of
//! the tables' root records, so a reader of one finds out that this is the other.

use crate::memory::{WordMemory, word_at};
use crate::root::{RootFault, checked_format, format_word, record_check};
use crate::tree::pointer::NodePointer;

/// The number of the tree among layouts.
pub(crate) const TREE_CODE: u8 = 4;

/// A copy of a tree's root record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeRoot {
    /// The root node, when this was read.
    pub(crate) pointer: NodePointer,
    /// The secret of the tree.
    pub(crate) salt: u64,
}

impl TreeRoot {
    pub(crate) fn decode(bytes: &[u8], check: u8) -> Result<TreeRoot, RootFault> {
        checked_format(bytes, TREE_CODE, check)?;
        Ok(TreeRoot { pointer: NodePointer::from_word(word_at(bytes, 0)), salt: word_at(bytes, 16) })
    }

    /// Stores all of the record, its first word last.
    pub(crate) fn store<M: WordMemory>(&self, memory: &M, check: u8) {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(&format_word(TREE_CODE, check).to_le_bytes());
        bytes[8..16].copy_from_slice(&self.salt.to_le_bytes());
        let sum = record_check(&bytes[..56]);
        bytes[56..].copy_from_slice(&sum.to_le_bytes());
        memory.copy_in(8, &bytes);
        memory.store(0, self.pointer.word());
    }
}

//! Pointers to nodes, and the first word of a node.
//!
//! ```text
//!  pointer:  | low half of the node's number 32 | offset / 1024, 32 |
//!  header:   | state 2 | level 6 | number 56 |
//! ```
//! A tree never gives two nodes the same number. So a reader that follows a pointer to memory which was used again finds
//! another number there. (The low half comes again after 2^32 nodes: a pointer as old as that, to the same place, would deceive.)

use std::fmt;

/// Bytes of a node. Nodes begin at multiples of it.
pub const NODE_BYTES: u64 = 1024;
/// One more than the highest offset of a node: trees have 4 TiB at most.
pub(crate) const MAX_NODE_OFFSET: u64 = NODE_BYTES << 32;
const NUMBER_BITS: u32 = 56;
/// The highest level. Leaves have level 0.
pub(crate) const MAX_LEVEL: u8 = 63;

/// The place and the number of a node.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct NodePointer(u64);

impl NodePointer {
    /// The pointer to nothing.
    pub(crate) const NONE: NodePointer = NodePointer(0);

    /// A pointer to the node with that number. The offset is a multiple of 1024 below 4 TiB.
    pub(crate) fn new(at: u64, number: u64) -> NodePointer {
        debug_assert!(at.is_multiple_of(NODE_BYTES) && at < MAX_NODE_OFFSET);
        NodePointer((number << 32) | (at / NODE_BYTES))
    }

    pub(crate) fn from_word(word: u64) -> NodePointer {
        NodePointer(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// Where the node begins, from the start of the memory.
    pub(crate) fn at(self) -> u64 {
        (self.0 & 0xffff_ffff) * NODE_BYTES
    }

    /// True if the first word of a node is that of the node that it points to.
    pub(crate) fn fits(self, header: NodeHeader) -> bool {
        header.number() as u32 == (self.0 >> 32) as u32
    }

    /// True for the pointer to nothing: the root record is there.
    pub(crate) fn is_none(self) -> bool {
        self.at() == 0
    }
}

impl fmt::Debug for NodePointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} at {:#x}", self.0 >> 32, self.at())
    }
}

/// The part that a node plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeState {
    /// No node.
    Nothing,
    /// A node of the tree.
    Live,
    /// Others took its place: its link leads to the first of them. It never changes again.
    Replaced,
}

/// The first word of a node: state, level and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeHeader(u64);

impl NodeHeader {
    pub(crate) fn new(state: NodeState, level: u8, number: u64) -> NodeHeader {
        debug_assert!(level <= MAX_LEVEL);
        NodeHeader((state as u64) << 62 | u64::from(level) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1))
    }

    pub(crate) fn from_word(word: u64) -> NodeHeader {
        NodeHeader(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn state(self) -> NodeState {
        match self.0 >> 62 {
            1 => NodeState::Live,
            2 => NodeState::Replaced,
            _ => NodeState::Nothing,
        }
    }

    pub(crate) fn level(self) -> u8 {
        (self.0 >> NUMBER_BITS) as u8 & MAX_LEVEL
    }

    pub(crate) fn number(self) -> u64 {
        self.0 & ((1 << NUMBER_BITS) - 1)
    }

    /// The same node, replaced.
    pub(crate) fn replaced(self) -> NodeHeader {
        NodeHeader::new(NodeState::Replaced, self.level(), self.number())
    }

    /// The bits that the check of a node covers: not its state.
    pub(crate) fn covered(self) -> u64 {
        self.0 & !(3 << 62)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_headers_are_their_fields() {
        let pointer = NodePointer::new(MAX_NODE_OFFSET - NODE_BYTES, 0x1_2345_6789);
        assert_eq!(pointer.at(), (4 << 40) - 1024);
        assert!(!pointer.is_none() && NodePointer::NONE.is_none());
        let header = NodeHeader::new(NodeState::Live, 63, 0x1_2345_6789);
        assert!(pointer.fits(header) && !pointer.fits(NodeHeader::new(NodeState::Live, 63, 0x2345_6788)));
        assert_eq!((header.state(), header.level(), header.number()), (NodeState::Live, 63, 0x1_2345_6789));
        let replaced = header.replaced();
        assert_eq!((replaced.state(), replaced.number()), (NodeState::Replaced, header.number()));
        assert_eq!((replaced.covered(), replaced.level()), (header.covered(), 63));
        assert_eq!(NodeHeader::from_word(0).state(), NodeState::Nothing);
        assert_eq!(NodeHeader::from_word(u64::MAX).state(), NodeState::Nothing);
    }
}

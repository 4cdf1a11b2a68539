//! Nodes as readers see them: 1024 bytes.
//!
//! ```text
//!  0        8       16     24                                   32
//! | header | CRC64 | link | end of the fixed part 2 | separators 2 | skip 4 | low | high | …
//!
//!  inner:  … | offsets of separators, 2 each | separators | pad | children, 8 each, one more than separators |
//!  leaf:   … | pad | slots of 16: location 8, head 4, tag 4 |
//! ```
//! The check covers the words from 24 to the end of the fixed part, the level, the number and the place. The link, the slots and the children are
//! outside of it: each of their words changes alone, by one store.
//!
//! A node holds the keys from its low fence to below its high fence. All keys of a leaf begin with the same `skip` bytes. The
//! head of a slot has the next four, so readers know roughly where in a leaf a key is. The tag is half a hash.

use std::cmp::Ordering;

use crc_fast::CrcAlgorithm;

use crate::memory::word_at;
use crate::object::{Location, Seal};
use crate::tree::pointer::{NODE_BYTES, NodeHeader, NodePointer};
use crate::tree::separator::{KnownOrder, LongSeparator, Separator};

pub(crate) const CHECK_AT: usize = 8;
pub(crate) const LINK_AT: usize = 16;
pub(crate) const INFO_AT: usize = 24;
/// Where the low fence begins.
pub(crate) const FENCES_AT: usize = 32;
pub(crate) const LEAF_SLOT_BYTES: usize = 16;
pub(crate) const CHILD_BYTES: usize = 8;

/// The check of a node with that fixed part.
pub(crate) fn node_check(seal: Seal, header: NodeHeader, fixed: &[u8]) -> u64 {
    crc_fast::checksum(CrcAlgorithm::Crc64Nvme, fixed) ^ seal.over(header.covered())
}

/// The four bytes behind the common ones, as a number in the order of keys.
pub(crate) fn head_of(key: &[u8], skip: usize) -> u32 {
    let mut head = [0; 4];
    let rest = key.get(skip..).unwrap_or_default();
    let len = rest.len().min(4);
    head[..len].copy_from_slice(&rest[..len]);
    u32::from_be_bytes(head)
}

/// A slot of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeafSlot {
    pub(crate) location: Location,
    pub(crate) head: u32,
    pub(crate) tag: u32,
}

impl LeafSlot {
    /// The word with head and tag.
    pub(crate) fn second_word(self) -> u64 {
        u64::from(self.head) << 32 | u64::from(self.tag)
    }
}

/// The point that a search aims at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Aim<'a> {
    /// This key.
    At(&'a [u8]),
    /// All that is just below this key.
    Before(&'a [u8]),
}

impl Aim<'_> {
    fn order(self, separator: &Separator<'_>, known: &[KnownOrder]) -> Result<Ordering, LongSeparator> {
        match self {
            Aim::At(key) => separator.order_of(key, known),
            Aim::Before(key) => separator.order_of(key, known).map(|order| order.then(Ordering::Less)),
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Aim::At(key) | Aim::Before(key) => key,
        }
    }
}

/// Where the aim of a search is, seen from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AimedAt {
    Below,
    Inside,
    Above,
}

/// The bytes of a node whose fixed part is whole.
#[derive(Clone, Copy)]
pub(crate) struct NodeView<'a> {
    bytes: &'a [u8],
    fixed_end: usize,
    separators: usize,
}

impl<'a> NodeView<'a> {
    /// Opens the bytes that were read from a pointer's place. `None`: they are not the node that it points to.
    pub(crate) fn open(bytes: &'a [u8], salt: u64, pointer: NodePointer) -> Option<NodeView<'a>> {
        let view = NodeView::trusted(bytes)?;
        let seal = Seal::new(salt, pointer.at());
        let check = node_check(seal, view.header(), bytes.get(INFO_AT..view.fixed_end)?);
        (pointer.fits(view.header()) && check == word_at(bytes, CHECK_AT)).then_some(view)
    }

    /// The view of bytes that were opened before.
    pub(crate) fn trusted(bytes: &'a [u8]) -> Option<NodeView<'a>> {
        let info = word_at(bytes, INFO_AT);
        let (fixed_end, separators) = ((info & 0xffff) as usize, (info >> 16 & 0xffff) as usize);
        let is_inside = fixed_end >= FENCES_AT && fixed_end <= bytes.len();
        (bytes.len() as u64 == NODE_BYTES && is_inside).then_some(NodeView { bytes, fixed_end, separators })
    }

    pub(crate) fn header(&self) -> NodeHeader {
        NodeHeader::from_word(word_at(self.bytes, 0))
    }

    /// The next node to the right; of a replaced node, the first of those that took its place.
    pub(crate) fn link(&self) -> NodePointer {
        NodePointer::from_word(word_at(self.bytes, LINK_AT))
    }

    /// Bytes with which all keys of a leaf begin.
    pub(crate) fn skip(&self) -> usize {
        (word_at(self.bytes, INFO_AT) >> 32) as usize
    }

    /// Number of separators of an inner node.
    pub(crate) fn separators(&self) -> usize {
        self.separators
    }

    fn separator_at(&self, offset: usize) -> Option<Separator<'a>> {
        Separator::decode(self.bytes.get(offset..self.fixed_end)?)
    }

    pub(crate) fn low(&self) -> Option<Separator<'a>> {
        self.separator_at(FENCES_AT)
    }

    pub(crate) fn high(&self) -> Option<Separator<'a>> {
        self.separator_at(FENCES_AT + self.low()?.encoded_bytes())
    }

    /// Where the separators' offsets begin.
    fn offsets_at(&self) -> Option<usize> {
        let low_bytes = self.low()?.encoded_bytes();
        Some(FENCES_AT + low_bytes + self.separator_at(FENCES_AT + low_bytes)?.encoded_bytes())
    }

    fn separator(&self, offsets_at: usize, number: usize) -> Option<Separator<'a>> {
        let offset = self.bytes.get(offsets_at + 2 * number..)?.first_chunk::<2>()?;
        self.separator_at(usize::from(u16::from_le_bytes(*offset)))
    }

    /// All separators of an inner node.
    pub(crate) fn all_separators(&self) -> Option<Vec<Separator<'static>>> {
        let offsets_at = self.offsets_at()?;
        (0..self.separators).map(|number| self.separator(offsets_at, number).map(Separator::into_owned)).collect()
    }

    /// Where children or slots begin.
    pub(crate) fn words_at(&self) -> usize {
        self.fixed_end.next_multiple_of(8)
    }

    pub(crate) fn child(&self, number: usize) -> Option<NodePointer> {
        let at = self.words_at() + number * CHILD_BYTES;
        (number <= self.separators && at + CHILD_BYTES <= self.bytes.len())
            .then(|| NodePointer::from_word(word_at(self.bytes, at)))
    }

    /// Number of slots of a leaf.
    pub(crate) fn slots(&self) -> usize {
        (self.bytes.len() - self.words_at().min(self.bytes.len())) / LEAF_SLOT_BYTES
    }

    /// Where a slot is in the node.
    pub(crate) fn slot_at(&self, number: usize) -> usize {
        self.words_at() + number * LEAF_SLOT_BYTES
    }

    pub(crate) fn slot(&self, number: usize) -> LeafSlot {
        let at = self.slot_at(number);
        let second = word_at(self.bytes, at + 8);
        LeafSlot {
            location: Location::from_word(word_at(self.bytes, at)),
            head: (second >> 32) as u32,
            tag: second as u32,
        }
    }

    /// Where an aim is, seen from this node. `None`: the node is broken.
    pub(crate) fn locate(&self, aim: Aim<'_>, known: &[KnownOrder]) -> Result<Option<AimedAt>, LongSeparator> {
        let (Some(low), Some(high)) = (self.low(), self.high()) else { return Ok(None) };
        Ok(Some(if aim.order(&low, known)?.is_lt() {
            AimedAt::Below
        } else if aim.order(&high, known)?.is_lt() {
            AimedAt::Inside
        } else {
            AimedAt::Above
        }))
    }

    /// The number of the child for an aim inside of this inner node. `None`: the node is broken.
    pub(crate) fn choose(&self, aim: Aim<'_>, known: &[KnownOrder]) -> Result<Option<usize>, LongSeparator> {
        let Some(offsets_at) = self.offsets_at() else { return Ok(None) };
        let (mut first, mut end) = (0, self.separators);
        while first < end {
            let middle = first + (end - first) / 2;
            let Some(separator) = self.separator(offsets_at, middle) else { return Ok(None) };
            if aim.order(&separator, known)?.is_lt() { end = middle } else { first = middle + 1 }
        }
        Ok(Some(first))
    }
}

//! Nodes as the owner makes them.

use crate::memory::{WordMemory, word_at};
use crate::object::{Location, Seal, SlotKind};
use crate::tree::node::{CHECK_AT, CHILD_BYTES, FENCES_AT, INFO_AT, LEAF_SLOT_BYTES, LINK_AT, LeafSlot};
use crate::tree::node::{NodeView, node_check};
use crate::tree::pointer::{NODE_BYTES, NodeHeader, NodePointer, NodeState};
use crate::tree::separator::{LongSeparator, MAX_ENCODED_BYTES, Separator};

/// Slots that a leaf has at least, whatever its fences are.
pub(crate) const MIN_LEAF_SLOTS: usize =
    (NODE_BYTES as usize - (FENCES_AT + 2 * MAX_ENCODED_BYTES).next_multiple_of(8)) / LEAF_SLOT_BYTES;

/// A node, outside of the memory.
#[derive(Clone, Debug)]
pub(crate) struct NodeImage {
    pub(crate) level: u8,
    pub(crate) link: NodePointer,
    pub(crate) low: Separator<'static>,
    pub(crate) high: Separator<'static>,
    pub(crate) content: NodeContent,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeContent {
    Leaf {
        skip: usize,
        slots: Vec<LeafSlot>,
    },
    /// One more child than separators.
    Inner {
        separators: Vec<Separator<'static>>,
        children: Vec<NodePointer>,
    },
}

impl NodeImage {
    /// The node that a view shows; `None` if it is broken.
    pub(crate) fn of(view: &NodeView<'_>) -> Option<NodeImage> {
        let content = if view.header().level() == 0 {
            let slots = (0..view.slots()).map(|number| view.slot(number));
            let slots = slots.filter(|slot| slot.location.kind() == SlotKind::Object).collect();
            NodeContent::Leaf { skip: view.skip(), slots }
        } else {
            let children = (0..=view.separators()).map(|number| view.child(number)).collect::<Option<Vec<_>>>()?;
            NodeContent::Inner { separators: view.all_separators()?, children }
        };
        Some(NodeImage {
            level: view.header().level(),
            link: view.link(),
            low: view.low()?.into_owned(),
            high: view.high()?.into_owned(),
            content,
        })
    }

    /// Its children; a leaf has none.
    pub(crate) fn children(&self) -> &[NodePointer] {
        match &self.content {
            NodeContent::Leaf { .. } => &[],
            NodeContent::Inner { children, .. } => children,
        }
    }

    /// All of its separators that are in blocks of their own.
    pub(crate) fn long_separators(&self) -> impl Iterator<Item = &LongSeparator> {
        let inside: &[Separator<'static>] = match &self.content {
            NodeContent::Leaf { .. } => &[],
            NodeContent::Inner { separators, .. } => separators,
        };
        [&self.low, &self.high].into_iter().chain(inside).filter_map(|separator| match separator {
            Separator::Long(long) => Some(long),
            Separator::Short(_) | Separator::Infinite => None,
        })
    }

    /// Bytes that it needs. A node has [`NODE_BYTES`].
    pub(crate) fn len_bytes(&self) -> usize {
        let fences = FENCES_AT + self.low.encoded_bytes() + self.high.encoded_bytes();
        match &self.content {
            NodeContent::Leaf { slots, .. } => fences.next_multiple_of(8) + slots.len() * LEAF_SLOT_BYTES,
            NodeContent::Inner { separators, children } => {
                let all: usize = separators.iter().map(|separator| 2 + separator.encoded_bytes()).sum();
                (fences + all).next_multiple_of(8) + children.len() * CHILD_BYTES
            }
        }
    }

    /// The bytes of the node with that number, at that place.
    pub(crate) fn encode(&self, salt: u64, at: u64, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; FENCES_AT];
        self.low.encode(&mut bytes);
        self.high.encode(&mut bytes);
        let (mut separators_len, mut skip_bytes) = (0, 0);
        match &self.content {
            NodeContent::Leaf { skip, .. } => skip_bytes = *skip,
            NodeContent::Inner { separators, .. } => {
                separators_len = separators.len();
                let mut offset = bytes.len() + 2 * separators.len();
                for separator in separators {
                    bytes.extend_from_slice(&(offset as u16).to_le_bytes());
                    offset += separator.encoded_bytes();
                }
                separators.iter().for_each(|separator| separator.encode(&mut bytes));
            }
        }
        let fixed_end = bytes.len();
        let info = fixed_end as u64 | (separators_len as u64) << 16 | (skip_bytes as u64) << 32;
        bytes.resize(fixed_end.next_multiple_of(8), 0);
        match &self.content {
            NodeContent::Leaf { slots, .. } => slots.iter().for_each(|slot| {
                bytes.extend_from_slice(&slot.location.word().to_le_bytes());
                bytes.extend_from_slice(&slot.second_word().to_le_bytes());
            }),
            NodeContent::Inner { children, .. } => {
                children.iter().for_each(|child| bytes.extend_from_slice(&child.word().to_le_bytes()));
            }
        }
        bytes.resize(NODE_BYTES as usize, 0);
        let header = NodeHeader::new(NodeState::Live, self.level, number);
        bytes[..8].copy_from_slice(&header.word().to_le_bytes());
        bytes[LINK_AT..INFO_AT].copy_from_slice(&self.link.word().to_le_bytes());
        bytes[INFO_AT..FENCES_AT].copy_from_slice(&info.to_le_bytes());
        let check = node_check(Seal::new(salt, at), header, &bytes[INFO_AT..fixed_end]);
        bytes[CHECK_AT..LINK_AT].copy_from_slice(&check.to_le_bytes());
        bytes
    }
}

/// Stores a node in a block that nobody has, its first word last.
pub(crate) fn store_node<M: WordMemory>(memory: &M, at: u64, bytes: &[u8]) {
    memory.store(at, 0);
    memory.copy_in(at + 8, &bytes[8..]);
    memory.store(at, word_at(bytes, 0));
}

/// Stores a slot of a leaf: the location last.
pub(crate) fn store_leaf_slot<M: WordMemory>(memory: &M, at: u64, slot: LeafSlot) {
    memory.store(at + 8, slot.second_word());
    memory.store(at, slot.location.word());
}

/// Empties a slot of a leaf.
pub(crate) fn clear_leaf_slot<M: WordMemory>(memory: &M, at: u64) {
    memory.store(at, Location::EMPTY.word());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::SizeClass;
    use crate::tree::node::{Aim, AimedAt, head_of};

    fn short(bytes: &[u8]) -> Separator<'static> {
        Separator::Short(bytes.to_vec().into())
    }

    fn inner() -> NodeImage {
        let separators: Vec<_> = [&b"d"[..], b"f", b"f0"].map(short).into();
        let children = (1..5).map(|child| NodePointer::new(child * 1024, child)).collect();
        let content = NodeContent::Inner { separators, children };
        NodeImage { level: 1, link: NodePointer::NONE, low: short(b"b"), high: short(b"p"), content }
    }

    #[test]
    fn an_inner_node_chooses_the_child() {
        let (bytes, pointer) = (inner().encode(9, 4096, 77), NodePointer::new(4096, 77));
        let view = NodeView::open(&bytes, 9, pointer).unwrap();
        let chosen = |key: &[u8]| view.choose(Aim::At(key), &[]).unwrap().unwrap();
        let chosen_before = |key: &[u8]| view.choose(Aim::Before(key), &[]).unwrap().unwrap();
        assert_eq!([chosen(b"b"), chosen(b"d"), chosen(b"f"), chosen(b"f00"), chosen(b"o")], [0, 1, 2, 3, 3]);
        assert_eq!([chosen_before(b"d"), chosen_before(b"d1"), chosen_before(b"p")], [0, 1, 3]);
        let seen = |aim| view.locate(aim, &[]).unwrap().unwrap();
        assert_eq!([seen(Aim::At(b"a")), seen(Aim::At(b"b")), seen(Aim::At(b"p"))], {
            [AimedAt::Below, AimedAt::Inside, AimedAt::Above]
        });
        assert_eq!([seen(Aim::Before(b"b")), seen(Aim::Before(b"p"))], [AimedAt::Below, AimedAt::Inside]);
        assert_eq!((view.child(3), view.child(4)), (Some(NodePointer::new(4096, 4)), None));
        let again = NodeImage::of(&view).unwrap();
        assert_eq!(again.encode(9, 4096, 77), bytes);
        assert_eq!(again.len_bytes(), view.words_at() + 4 * CHILD_BYTES);
    }

    #[test]
    fn a_node_of_another_place_number_or_tree_is_none() {
        let mut bytes = inner().encode(9, 4096, 77);
        let opens =
            |bytes: &[u8], salt, at, number| NodeView::open(bytes, salt, NodePointer::new(at, number)).is_some();
        assert!(opens(&bytes, 9, 4096, 77));
        assert!(!opens(&bytes, 8, 4096, 77) && !opens(&bytes, 9, 5120, 77) && !opens(&bytes, 9, 4096, 78));
        // Replaced, it is still whole. A child that changes leaves it whole, too.
        bytes[..8].copy_from_slice(&NodeHeader::new(NodeState::Replaced, 1, 77).word().to_le_bytes());
        let child = NodeView::trusted(&bytes).unwrap().words_at();
        bytes[child] ^= 1;
        assert!(opens(&bytes, 9, 4096, 77));
        for at in (8..16).chain(24..child - 8) {
            bytes[at] ^= 1;
            assert!(!opens(&bytes, 9, 4096, 77), "byte {at}");
            bytes[at] ^= 1;
        }
        assert!(!opens(&bytes[..1016], 9, 4096, 77));
    }

    #[test]
    fn a_leaf_has_its_slots() {
        let location = Location::new(64, SizeClass::of(64).unwrap(), 3);
        let slots = vec![LeafSlot { location, head: head_of(b"keys", 1), tag: 5 }; 3];
        let content = NodeContent::Leaf { skip: 1, slots: slots.clone() };
        let low = Separator::Short(vec![1; 64].into());
        let high = Separator::Short(vec![2; 64].into());
        let leaf = NodeImage { level: 0, link: NodePointer::NONE, low, high, content };
        let bytes = leaf.encode(1, 1024, 1);
        let view = NodeView::open(&bytes, 1, NodePointer::new(1024, 1)).unwrap();
        assert_eq!((view.slots(), view.skip()), (MIN_LEAF_SLOTS, 1));
        assert_eq!((view.slot(2), view.slot(3).location.kind()), (slots[2], SlotKind::Empty));
        assert_eq!(view.slot(0).head, u32::from_be_bytes(*b"eys\0"));
    }
}

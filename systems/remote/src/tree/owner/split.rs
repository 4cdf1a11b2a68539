//! Splits of nodes that are full.

use crate::memory::WordMemory;
use crate::object::TornCheck;
use crate::owner::OwnerError;
use crate::tree::image::{MIN_LEAF_SLOTS, NodeContent, NodeImage};
use crate::tree::node::Aim;
use crate::tree::node::{LeafSlot, head_of};
use crate::tree::owner::TreeOwner;
use crate::tree::pointer::{NODE_BYTES, NodePointer};
use crate::tree::separator::{Separator, common_bytes, shortest_between};

impl<M: WordMemory, C: TornCheck> TreeOwner<M, C> {
    /// Splits a full leaf, to make room for a key. Keys that come in ascending order leave full leaves behind.
    pub(super) fn split_leaf(&mut self, pointer: NodePointer, key: &[u8]) -> Result<(), OwnerError> {
        let (found, leaf) = self.node_at(Aim::At(key), 0)?;
        let sorted = self.sorted(&leaf)?;
        let last = sorted.last().map(|(last, _)| last.as_slice()).filter(|_| found == pointer);
        let last = last.ok_or(OwnerError::Broken)?;
        let ascends = leaf.high == Separator::Infinite && key > last;
        let middle = if ascends { sorted.len().min(MIN_LEAF_SLOTS) } else { sorted.len() / 2 };
        let right_key = sorted.get(middle).map_or(key, |(right, _)| right.as_slice());
        let left_key = middle.checked_sub(1).and_then(|left| sorted.get(left)).ok_or(OwnerError::Broken)?;
        let between = shortest_between(&left_key.0, right_key).to_vec();
        let between = self.separator(&between)?;
        let left = self.leaf_of((leaf.low.clone(), between.clone()), &sorted[..middle])?;
        let right = self.leaf_of((between, leaf.high.clone()), &sorted[middle..])?;
        self.change(vec![(pointer, leaf)], vec![left, right])
    }

    /// A separator of these bytes.
    pub(super) fn separator(&mut self, bytes: &[u8]) -> Result<Separator<'static>, OwnerError> {
        self.longs.make((&self.objects.memory, &mut self.objects.blocks), self.root.salt, bytes)
    }

    /// A leaf with these keys.
    pub(super) fn leaf_of(
        &mut self,
        (low, high): (Separator<'static>, Separator<'static>),
        sorted: &[(Vec<u8>, LeafSlot)],
    ) -> Result<NodeImage, OwnerError> {
        let bytes_of = |separator| self.longs.bytes_of(&self.objects.memory, self.root.salt, separator);
        let skip = match (bytes_of(&low)?, bytes_of(&high)?) {
            (Some(low), Some(high)) => common_bytes(&low, &high),
            _ => 0,
        };
        let slots = sorted.iter().map(|(key, slot)| LeafSlot { head: head_of(key, skip), ..*slot }).collect();
        Ok(NodeImage { level: 0, link: NodePointer::NONE, low, high, content: NodeContent::Leaf { skip, slots } })
    }
}

/// One or two inner nodes for one that may be too long.
pub(super) fn split_inner(node: NodeImage) -> Vec<NodeImage> {
    if node.len_bytes() <= NODE_BYTES as usize {
        return vec![node];
    }
    let NodeImage { level, link, low, high, content: NodeContent::Inner { mut separators, mut children } } = node
    else {
        return vec![node];
    };
    // The middle by bytes: the separator there goes up.
    let all: usize = separators.iter().map(Separator::encoded_bytes).sum();
    let (mut before, mut middle) = (0, 0);
    while middle + 2 < separators.len() && (before + separators[middle].encoded_bytes()) * 2 < all {
        before += separators[middle].encoded_bytes();
        middle += 1;
    }
    let (right_separators, right_children) = (separators.split_off(middle + 1), children.split_off(middle + 1));
    let Some(between) = separators.pop() else { return Vec::new() };
    let left_content = NodeContent::Inner { separators, children };
    let right_content = NodeContent::Inner { separators: right_separators, children: right_children };
    vec![
        NodeImage { level, link, low, high: between.clone(), content: left_content },
        NodeImage { level, link, low: between, high, content: right_content },
    ]
}

//! Merges of nodes that are nearly empty. They are lazy: a node stays as it is until a key of it is deleted, and while no neighbour
//! below the same parent has room for both.

use crate::memory::WordMemory;
use crate::object::TornCheck;
use crate::owner::OwnerError;
use crate::tree::image::{NodeContent, NodeImage};
use crate::tree::node::Aim;
use crate::tree::owner::TreeOwner;
use crate::tree::pointer::{NODE_BYTES, NodePointer};

/// Nodes below this length look for a neighbour.
const SPARSE_BYTES: usize = NODE_BYTES as usize / 3;
/// Nodes that are merged have this length at most, so that they are not split again soon. Empty ones may fill a node.
const MERGED_BYTES: usize = NODE_BYTES as usize * 3 / 4;

fn is_empty(node: &NodeImage) -> bool {
    match &node.content {
        NodeContent::Leaf { slots, .. } => slots.is_empty(),
        NodeContent::Inner { children, .. } => children.len() == 1,
    }
}

impl<M: WordMemory, C: TornCheck> TreeOwner<M, C> {
    /// Merges the sparse nodes on the way to a key, from the leaf up. Without room for that, it is done later.
    pub(super) fn merge_around(&mut self, key: &[u8]) -> Result<(), OwnerError> {
        for level in 0.. {
            if level >= self.root_level {
                break;
            }
            match self.merge_at(key, level) {
                Ok(true) => {}
                Ok(false) => break,
                Err(OwnerError::NoRoom(_)) => {
                    let leaf = self.node_at(Aim::At(key), 0)?.1;
                    self.owed_merges.extend(self.longs.bytes_of(&self.objects.memory, self.root.salt, &leaf.low)?);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Does the merges for which there was no room, while there is some.
    pub(super) fn merge_owed(&mut self) {
        while let Some(key) = self.owed_merges.pop_first() {
            // A peer that has broken the tree is found out by the next operation there.
            if self.merge_around(&key).is_ok() && self.owed_merges.contains(&key) {
                break;
            }
        }
    }

    /// Merges the node that holds the key with a neighbour. Returns false if it does not need that, or cannot.
    fn merge_at(&mut self, key: &[u8], level: u8) -> Result<bool, OwnerError> {
        let (pointer, node) = self.node_at(Aim::At(key), level)?;
        if node.len_bytes() > SPARSE_BYTES && !is_empty(&node) {
            return Ok(false);
        }
        let (_, parent) = self.node_at(Aim::At(key), level + 1)?;
        let children = parent.children();
        let place = children.iter().position(|child| *child == pointer).ok_or(OwnerError::Broken)?;
        let right = children.get(place + 1).copied();
        let left = place.checked_sub(1).map(|left| children[left]);
        if let Some(right) = right {
            let right = self.neighbour(&node, right, true)?;
            if self.merge_pair((pointer, node.clone()), right)? {
                return Ok(true);
            }
        }
        let Some(left) = left else { return Ok(false) };
        let left = self.neighbour(&node, left, false)?;
        self.merge_pair(left, (pointer, node))
    }

    /// The neighbour on one side of a node, which must be the one that the parent names.
    fn neighbour(
        &mut self,
        node: &NodeImage,
        expected: NodePointer,
        is_right: bool,
    ) -> Result<(NodePointer, NodeImage), OwnerError> {
        let fence = if is_right { &node.high } else { &node.low };
        let fence = self.longs.bytes_of(&self.objects.memory, self.root.salt, fence)?.ok_or(OwnerError::Broken)?;
        let aim = if is_right { Aim::At(&fence) } else { Aim::Before(&fence) };
        let found = self.node_at(aim, node.level)?;
        if found.0 == expected { Ok(found) } else { Err(OwnerError::Broken) }
    }

    fn merge_pair(
        &mut self,
        left: (NodePointer, NodeImage),
        right: (NodePointer, NodeImage),
    ) -> Result<bool, OwnerError> {
        let joined = joined(&left.1, &right.1).ok_or(OwnerError::Broken)?;
        let longest = if is_empty(&left.1) || is_empty(&right.1) { NODE_BYTES as usize } else { MERGED_BYTES };
        if joined.len_bytes() > longest {
            return Ok(false);
        }
        // The keys of a leaf with wider fences have other heads.
        let merged = match &joined.content {
            NodeContent::Leaf { .. } => {
                let sorted = self.sorted(&joined)?;
                self.leaf_of((joined.low, joined.high), &sorted)?
            }
            NodeContent::Inner { .. } => joined,
        };
        self.change(vec![left, right], vec![merged]).map(|()| true)
    }
}

/// A node with all that two neighbours hold, whatever its length.
fn joined(left: &NodeImage, right: &NodeImage) -> Option<NodeImage> {
    let mut joined = left.clone();
    match (&mut joined.content, &right.content) {
        (NodeContent::Leaf { slots, .. }, NodeContent::Leaf { slots: more, .. }) => slots.extend(more),
        (
            NodeContent::Inner { separators, children },
            NodeContent::Inner { separators: more_separators, children: more_children },
        ) => {
            separators.push(right.low.clone());
            separators.extend_from_slice(more_separators);
            children.extend_from_slice(more_children);
        }
        _ => return None,
    }
    joined.high = right.high.clone();
    Some(joined)
}

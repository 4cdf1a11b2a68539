//! A reader's copies of inner nodes.
//!
//! Nothing has to be invalidated. The fixed part of a node never changes, and a child that is no longer there is found out where it
//! was: it is replaced, has another number, or its fences do not hold the key.

use crate::tree::pointer::{NODE_BYTES, NodePointer};

/// Entries of a set: within it the one that was used least recently goes.
const WAYS: usize = 8;

#[derive(Clone, Debug)]
struct CachedNode {
    pointer: NodePointer,
    bytes: Box<[u8]>,
}

/// Inner nodes by their pointers: bounded, 1 KiB each.
#[derive(Clone, Debug)]
pub struct NodeCache {
    sets: Vec<Vec<CachedNode>>,
    hits: u64,
    misses: u64,
}

impl NodeCache {
    /// Room for at least so many nodes; zero makes a cache that remembers nothing.
    pub fn new(nodes: usize) -> NodeCache {
        NodeCache { sets: vec![Vec::new(); nodes.div_ceil(WAYS)], hits: 0, misses: 0 }
    }

    /// Nodes that it has room for.
    pub fn capacity(&self) -> usize {
        self.sets.len() * WAYS
    }

    /// Nodes that it has.
    pub fn len(&self) -> usize {
        self.sets.iter().map(Vec::len).sum()
    }

    /// True without nodes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Times that it knew a node, and times that it did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    pub(crate) fn get(&mut self, pointer: NodePointer) -> Option<&[u8]> {
        let found = self.set(pointer).and_then(|set| {
            let place = set.iter().position(|node| node.pointer == pointer)?;
            set[..=place].rotate_right(1);
            Some(())
        });
        *(if found.is_some() { &mut self.hits } else { &mut self.misses }) += 1;
        found?;
        self.set(pointer)?.first().map(|node| &*node.bytes)
    }

    pub(crate) fn put(&mut self, pointer: NodePointer, bytes: &[u8]) {
        let Some(set) = self.set(pointer) else { return };
        let place = set.iter().position(|node| node.pointer == pointer);
        if place.is_none() && set.len() < WAYS {
            set.push(CachedNode { pointer, bytes: vec![0; NODE_BYTES as usize].into() });
        }
        let place = place.unwrap_or(set.len() - 1);
        set[..=place].rotate_right(1);
        set[0].pointer = pointer;
        set[0].bytes.copy_from_slice(bytes);
    }

    pub(crate) fn forget(&mut self, pointer: NodePointer) {
        if let Some(set) = self.set(pointer) {
            set.retain(|node| node.pointer != pointer);
        }
    }

    fn set(&mut self, pointer: NodePointer) -> Option<&mut Vec<CachedNode>> {
        let hash = crate::object::mixed(pointer.word());
        let number = (u128::from(hash) * self.sets.len() as u128) >> 64;
        self.sets.get_mut(number as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_the_nodes_that_are_used_and_no_more_than_it_has_room_for() {
        let mut cache = NodeCache::new(8);
        let pointer = |number: u64| NodePointer::new(number * 1024, number);
        for number in 1..=8 {
            cache.put(pointer(number), &[number as u8; 1024]);
        }
        assert_eq!(cache.get(pointer(1)).map(|bytes| bytes[0]), Some(1));
        cache.put(pointer(9), &[9; 1024]);
        assert_eq!((cache.len(), cache.capacity()), (8, 8));
        assert!(cache.get(pointer(2)).is_none() && cache.get(pointer(1)).is_some());
        cache.put(pointer(9), &[10; 1024]);
        assert_eq!((cache.get(pointer(9)).map(|bytes| bytes[0]), cache.len()), (Some(10), 8));
        cache.forget(pointer(9));
        assert!(cache.get(pointer(9)).is_none() && cache.len() == 7);
        assert_eq!(cache.hits_and_misses(), (3, 2));
        // The same place, another node.
        assert!(cache.get(NodePointer::new(1024, 99)).is_none());
    }

    #[test]
    fn without_room_it_remembers_nothing() {
        let mut cache = NodeCache::new(0);
        cache.put(NodePointer::new(1024, 1), &[1; 1024]);
        assert!(cache.get(NodePointer::new(1024, 1)).is_none() && cache.is_empty());
    }
}

//! The owner of a tree: the only one who changes its nodes, and who makes and frees objects.
//!
//! ```text
//!  insert   write the object, pending ─► a free slot of the leaf ─► live
//!  update, delete: as in tables
//!  split    write two leaves and a new parent ─► one word above leads there ─► the link from the left ─► the old ones replaced
//! ```
//! Each arrow is one store of a word. New nodes hold what the old ones do, and no slot changes before the old ones are
//! replaced. So an owner that stops anywhere in a split hinders no reader.

mod change;
mod longs;
mod merge;
mod search;
mod split;

pub use search::OwnedPart;

use std::collections::BTreeSet;

use crate::allocator::{AllocatorOptions, BlockAllocator};
use crate::memory::WordMemory;
use crate::object::{Location, ObjectHeader, SizeClass, SlotKind, TornCheck};
use crate::owner::{ObjectStore, OwnObject, OwnerError, OwnerOptions, PutOutcome};
use crate::owner::{check_lengths, must_be_expected, must_be_unlocked};
use crate::root::ROOT_BYTES;
use crate::tree::descent::Descent;
use crate::tree::image::{NodeContent, NodeImage, clear_leaf_slot, store_leaf_slot, store_node};
use crate::tree::lookup::key_tag;
use crate::tree::node::{Aim, LeafSlot, head_of};
use crate::tree::owner::longs::LongSeparators;
use crate::tree::pointer::{MAX_NODE_OFFSET, NODE_BYTES, NodePointer};
use crate::tree::root::TreeRoot;
use crate::tree::separator::Separator;

/// Choices for a new tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeOptions {
    /// Objects up to this length are changed in place, if their block has room.
    pub in_place_bytes: u64,
    /// Blocks of memory.
    pub allocator: AllocatorOptions,
    /// The tree's secret, which goes into tags and checks: random by default.
    pub salt: u64,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        let OwnerOptions { in_place_bytes, allocator, salt, .. } = OwnerOptions::default();
        TreeOptions { in_place_bytes, allocator, salt }
    }
}

/// The owner of a tree: its writer. Its memory begins with the root record. Trees use the first 4 TiB of it at most.
pub struct TreeOwner<M, C> {
    objects: ObjectStore<M, C>,
    longs: LongSeparators,
    root: TreeRoot,
    root_level: u8,
    /// Nodes that were ever made.
    numbers: u64,
    keys: u64,
    nodes: u64,
    /// Low fences of leaves around which nodes are sparse, and there was no room to merge them.
    owed_merges: BTreeSet<Vec<u8>>,
    descent: Descent,
    buffer: Vec<u8>,
}

/// The class of the blocks of nodes.
fn node_class() -> Result<SizeClass, OwnerError> {
    SizeClass::of(NODE_BYTES).ok_or(OwnerError::TooShort(NODE_BYTES))
}

impl<M: WordMemory, C: TornCheck> TreeOwner<M, C> {
    /// Makes an empty tree in all of the memory.
    ///
    /// # Errors
    /// If the memory is too short.
    pub fn create(memory: M, options: TreeOptions) -> Result<Self, OwnerError> {
        let range = ROOT_BYTES..memory.len_bytes().min(MAX_NODE_OFFSET);
        let mut objects = ObjectStore::new(memory, range, options.allocator, (options.salt, options.in_place_bytes));
        let (at, salt) = (objects.blocks.allocate(node_class()?)?, options.salt);
        let root = TreeRoot { pointer: NodePointer::new(at, 1), salt };
        let content = NodeContent::Leaf { skip: 0, slots: Vec::new() };
        let (link, low, high) = (NodePointer::NONE, Separator::LOWEST, Separator::Infinite);
        let leaf = NodeImage { level: 0, link, low, high, content };
        store_node(&objects.memory, at, &leaf.encode(salt, at, 1));
        root.store(&objects.memory, C::CODE);
        Ok(TreeOwner {
            objects,
            longs: LongSeparators::default(),
            root,
            root_level: 0,
            numbers: 1,
            keys: 0,
            nodes: 1,
            owed_merges: BTreeSet::new(),
            descent: Descent::new(),
            buffer: Vec::new(),
        })
    }

    /// Tells the time, which decides when freed memory is used again. Without it, none is.
    pub fn set_now(&mut self, now_ns: u64) {
        self.objects.blocks.set_now(now_ns);
        self.merge_owed();
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.objects.memory
    }

    /// Number of keys.
    pub fn len(&self) -> u64 {
        self.keys
    }

    /// True without keys.
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Number of levels: READs of nodes that a lookup without copies of inner nodes takes.
    pub fn levels(&self) -> u32 {
        u32::from(self.root_level) + 1
    }

    /// The blocks of its memory: how much is in use.
    pub fn blocks(&self) -> &BlockAllocator {
        &self.objects.blocks
    }

    /// Gives a key a value.
    ///
    /// # Errors
    /// If there is no room, the key or the value is too long, or a peer has the lock of the object.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<PutOutcome, OwnerError> {
        check_lengths(key, value)?;
        let found = self.find(key)?;
        self.put_found(found, key, value)
    }

    /// Gives a key a value, if its object has this first word now; `None` means that the key must be absent.
    ///
    /// # Errors
    /// As [`put`](TreeOwner::put), and if the object is another one.
    pub fn compare_and_put(
        &mut self,
        key: &[u8],
        value: &[u8],
        expected: Option<ObjectHeader>,
    ) -> Result<PutOutcome, OwnerError> {
        check_lengths(key, value)?;
        let found = self.find(key)?;
        must_be_expected(found.as_ref(), expected)?;
        self.put_found(found, key, value)
    }

    fn put_found(&mut self, found: Option<OwnObject>, key: &[u8], value: &[u8]) -> Result<PutOutcome, OwnerError> {
        let Some(found) = found else { return self.insert(key, value).map(PutOutcome::Inserted) };
        let relocate = |memory: &M, location: Location| memory.store(found.slot_at, location.word());
        self.objects.update(&found, (key, value), relocate).map(PutOutcome::Updated)
    }

    /// Deletes a key. Returns false if it was absent. Leaves that become empty, or nearly so, are merged with a neighbour
    /// that has room.
    ///
    /// # Errors
    /// If a peer has the lock of the object.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, OwnerError> {
        let Some(found) = self.find(key)? else { return Ok(false) };
        must_be_unlocked(&found)?;
        self.objects.kill(&found)?;
        clear_leaf_slot(&self.objects.memory, found.slot_at);
        self.objects.free(found.location);
        self.keys -= 1;
        self.merge_around(key)?;
        Ok(true)
    }

    /// The value and the first word of a key's object, read by the owner itself.
    ///
    /// # Errors
    /// If a peer has broken the tree.
    pub fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<ObjectHeader>, OwnerError> {
        value.clear();
        let Some(found) = self.find(key)? else { return Ok(None) };
        self.objects.copy_value(found.location, (key.len() as u64, found.value_bytes), value);
        Ok(Some(found.header))
    }

    /// Appends bytes of the value of a key's object to `part`, from `from` on, at most `len_bytes`. Returns the object's first
    /// word and the length of its whole value.
    ///
    /// # Errors
    /// If a peer has broken the tree.
    pub fn get_part(
        &mut self,
        key: &[u8],
        from: u64,
        len_bytes: u64,
        part: &mut Vec<u8>,
    ) -> Result<Option<(ObjectHeader, u64)>, OwnerError> {
        let Some(found) = self.find(key)? else { return Ok(None) };
        let len_bytes = len_bytes.min(found.value_bytes.saturating_sub(from));
        if len_bytes > 0 {
            self.objects.copy_part(found.location, key.len() as u64 + from, len_bytes, part);
        }
        Ok(Some((found.header, found.value_bytes)))
    }

    /// Gives an object a new value whose lock a writer holds that is gone, as
    /// [`TableOwner::break_lock`](crate::TableOwner::break_lock) does.
    ///
    /// # Errors
    /// If the object has another first word by now, or is absent.
    pub fn break_lock(&mut self, key: &[u8], held: ObjectHeader, value: &[u8]) -> Result<ObjectHeader, OwnerError> {
        check_lengths(key, value)?;
        let found = self.find(key)?.ok_or(OwnerError::OtherVersion(None))?;
        if found.header != held || held.holder() == 0 {
            return Err(OwnerError::OtherVersion(Some(found.header)));
        }
        let relocate = |memory: &M, location: Location| memory.store(found.slot_at, location.word());
        self.objects.replace(&found, (key, value), relocate)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<ObjectHeader, OwnerError> {
        let (location, pending) = self.objects.write_pending(key, value, 0)?;
        if let Err(error) = self.fill_slot(key, location) {
            self.objects.free(location);
            return Err(error);
        }
        self.keys += 1;
        Ok(self.objects.make_live(location, pending))
    }

    /// Puts a location into a free slot of the key's leaf, and splits the leaf if it has none.
    fn fill_slot(&mut self, key: &[u8], location: Location) -> Result<(), OwnerError> {
        let tag = key_tag(self.root.salt, key) as u32;
        for _ in 0..2 {
            let leaf = self.go_to(Aim::At(key), 0)?;
            let view = self.descent.view().ok_or(OwnerError::Broken)?;
            let free = (0..view.slots()).find(|number| view.slot(*number).location.kind() != SlotKind::Object);
            if let Some(number) = free {
                let slot = LeafSlot { location, head: head_of(key, view.skip()), tag };
                store_leaf_slot(&self.objects.memory, leaf.at() + view.slot_at(number) as u64, slot);
                return Ok(());
            }
            self.split_leaf(leaf, key)?;
        }
        Err(OwnerError::Broken)
    }
}

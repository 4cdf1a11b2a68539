//! A reader's search for one key in a tree, as a state machine: it asks for READs and is fed their bytes.
//!
//! ```text
//!           ┌──────────── location that the reader remembers ────────────┐
//!  root ─► inner nodes, or copies of them ─► leaf ─► slot with the tag ─► object ─► found
//!                                             │ ▲                           │
//!                                             │ └─ dead, torn, another key ─┘
//!                                             └─ no slot: read the leaf's first word; as before ─► absent
//! ```
//! Slots never move inside a leaf, and a replaced leaf never changes again. So a key is absent if no slot of a leaf has it
//! that was live *after* all of it was read. It was live before, too: pointers lead to nodes that were there before them.

use std::marker::PhantomData;

use crate::lookup::{
    ATTEMPTS, FIRST_READ_BYTES, FoundObject, Judged, LookupCounts, LookupStep, ReadRequest, TEARS, judge,
};
use crate::memory::word_at;
use crate::object::{Location, Seal, SlotKind, TornCheck};
use crate::root::{ROOT_BYTES, RootFault};
use crate::tree::cache::NodeCache;
use crate::tree::descent::{Descent, DescentStep, TreePlace};
use crate::tree::node::Aim;
use crate::tree::root::TreeRoot;

/// The number by which caches of locations know a key. Slots of leaves have its lower half.
pub(crate) fn key_tag(salt: u64, key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, salt)
}

#[derive(Clone, Copy, Debug)]
enum TreeStage {
    Idle,
    Root,
    Descent,
    Object { location: Location, len_bytes: u64, is_remembered: bool },
    Confirm,
}

/// A lookup of one key at a time in a tree. It keeps the root record, so the next lookup needs no READ for it.
///
/// All lookups of a reader share one [`NodeCache`].
#[derive(Debug)]
pub struct TreeLookup<C> {
    root: Option<TreeRoot>,
    memory_bytes: u64,
    tag: u64,
    descent: Descent,
    /// The next slot to look at.
    slot: usize,
    stage: TreeStage,
    attempts: u32,
    tears: u32,
    counts: LookupCounts,
    scratch: Vec<u8>,
    check: PhantomData<C>,
}

impl<C: TornCheck> TreeLookup<C> {
    /// A lookup in the tree that lies in so many bytes. It asks for no byte beyond them.
    pub fn new(memory_bytes: u64) -> TreeLookup<C> {
        TreeLookup {
            root: None,
            memory_bytes,
            tag: 0,
            descent: Descent::new(),
            slot: 0,
            stage: TreeStage::Idle,
            attempts: 0,
            tears: 0,
            counts: LookupCounts::default(),
            scratch: Vec::new(),
            check: PhantomData,
        }
    }

    /// The root record that it knows.
    pub fn root(&self) -> Option<TreeRoot> {
        self.root
    }

    /// Takes a root record that another lookup in the same tree has read. To be called between lookups.
    pub fn learn(&mut self, root: TreeRoot) {
        if matches!(self.stage, TreeStage::Idle) {
            self.root = Some(root);
        }
    }

    /// READs since [`start`](TreeLookup::start); those of nodes and of separators count as `index`.
    pub fn counts(&self) -> LookupCounts {
        self.counts
    }

    /// The tag by which caches of locations know a key; `None` before the root record has been read.
    pub fn tag_of(&self, key: &[u8]) -> Option<u64> {
        self.root.map(|root| key_tag(root.salt, key))
    }

    /// Begins a lookup: at the object, if the reader remembers its location, otherwise at the root. The step is a READ,
    /// unless it is `Busy`.
    pub fn start(&mut self, key: &[u8], remembered: Option<Location>, cache: &mut NodeCache) -> LookupStep<'static> {
        (self.attempts, self.tears, self.counts) = (0, 0, LookupCounts::default());
        let Some(root) = self.root.filter(|_| !self.descent.root_moved()) else { return self.read_root() };
        self.tag = key_tag(root.salt, key);
        match remembered.filter(|location| location.kind() == SlotKind::Object) {
            Some(location) => self.read_object(location, true, key, cache),
            None => self.descend(key, cache),
        }
    }

    /// Takes the bytes that the last step asked for. `key` is the key of [`start`](TreeLookup::start).
    pub fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8], cache: &mut NodeCache) -> LookupStep<'a> {
        match std::mem::replace(&mut self.stage, TreeStage::Idle) {
            TreeStage::Idle => LookupStep::Busy,
            TreeStage::Root => match TreeRoot::decode(bytes, C::CODE) {
                Ok(root) => {
                    (self.root, self.tag) = (Some(root), key_tag(root.salt, key));
                    self.descend(key, cache)
                }
                Err(RootFault::Torn) => self.again(),
                Err(RootFault::OtherFormat) => LookupStep::OtherFormat,
            },
            TreeStage::Descent => {
                let step = self.descent.feed(Aim::At(key), bytes, cache);
                self.on_descent(step, key, cache)
            }
            TreeStage::Object { location, len_bytes, is_remembered } => {
                self.on_object(key, bytes, (location, len_bytes, is_remembered), cache)
            }
            TreeStage::Confirm => {
                let first = self.descent.view().map(|view| view.header().word());
                if first == Some(word_at(bytes, 0)) { LookupStep::Absent } else { self.again() }
            }
        }
    }

    fn read(&mut self, stage: TreeStage, at: u64, len_bytes: u64) -> LookupStep<'static> {
        self.stage = stage;
        LookupStep::Read(ReadRequest { at, len_bytes })
    }

    fn read_root(&mut self) -> LookupStep<'static> {
        if self.memory_bytes < ROOT_BYTES {
            return LookupStep::OtherFormat;
        }
        self.counts.root += 1;
        self.read(TreeStage::Root, 0, ROOT_BYTES)
    }

    /// Begins anew, at the root record.
    fn again(&mut self) -> LookupStep<'static> {
        self.attempts += 1;
        self.tears = 0;
        if self.attempts > ATTEMPTS {
            return LookupStep::Busy;
        }
        self.read_root()
    }

    /// Begins at the root node. The first time, copies of inner nodes will do.
    fn descend(&mut self, key: &[u8], cache: &mut NodeCache) -> LookupStep<'static> {
        let Some(root) = self.root else { return self.read_root() };
        let place = TreePlace { salt: root.salt, memory_bytes: self.memory_bytes };
        let copies = (self.attempts == 0).then_some(&mut *cache);
        let step = self.descent.start(place, (root.pointer, 0), Aim::At(key), copies);
        self.on_descent(step, key, cache)
    }

    fn on_descent(&mut self, step: DescentStep, key: &[u8], cache: &mut NodeCache) -> LookupStep<'static> {
        match step {
            DescentStep::Read(wanted) => {
                self.counts.index += 1;
                self.read(TreeStage::Descent, wanted.at, wanted.len_bytes)
            }
            DescentStep::There => {
                self.slot = 0;
                self.next_slot(key, cache)
            }
            DescentStep::Lost => self.again(),
        }
    }

    /// The next slot of the leaf with the key's tag.
    fn next_slot(&mut self, key: &[u8], cache: &mut NodeCache) -> LookupStep<'static> {
        let Some(view) = self.descent.view() else { return self.again() };
        let found = (self.slot..view.slots()).find(|number| {
            let slot = view.slot(*number);
            slot.tag == self.tag as u32 && slot.location.kind() == SlotKind::Object
        });
        match found {
            Some(number) => {
                let location = view.slot(number).location;
                self.slot = number + 1;
                self.read_object(location, false, key, cache)
            }
            None => {
                self.counts.index += 1;
                self.read(TreeStage::Confirm, self.descent.pointer().at(), 8)
            }
        }
    }

    fn read_object(
        &mut self,
        location: Location,
        is_remembered: bool,
        key: &[u8],
        cache: &mut NodeCache,
    ) -> LookupStep<'static> {
        let end = location.offset().checked_add(location.class().bytes());
        match end.is_some_and(|end| end <= self.memory_bytes) {
            true => self.read_part(location, location.class().bytes().min(FIRST_READ_BYTES), is_remembered),
            false if is_remembered => self.descend(key, cache),
            false => self.again(),
        }
    }

    fn read_part(&mut self, location: Location, len_bytes: u64, is_remembered: bool) -> LookupStep<'static> {
        self.counts.object += 1;
        self.read(TreeStage::Object { location, len_bytes, is_remembered }, location.offset(), len_bytes)
    }

    fn on_object<'a>(
        &'a mut self,
        key: &[u8],
        bytes: &'a [u8],
        (location, len_bytes, is_remembered): (Location, u64, bool),
        cache: &mut NodeCache,
    ) -> LookupStep<'a> {
        let Some(root) = self.root else { return self.again() };
        let seal = Seal::new(root.salt, location.offset());
        let collides = match judge::<C>(seal, (location, len_bytes), bytes, &mut self.scratch) {
            Judged::Whole(object) => {
                let content = C::content(bytes, &self.scratch);
                if content[object.key.clone()] == *key {
                    let value = &C::content(bytes, &self.scratch)[object.value];
                    return LookupStep::Found(FoundObject { value, header: object.header, location });
                }
                let tag = key_tag(root.salt, &content[object.key]);
                tag as u32 == self.tag as u32 && object.header.incarnation() == location.incarnation()
            }
            Judged::Longer(all) => return self.read_part(location, all, is_remembered),
            Judged::Torn if self.tears < TEARS => {
                self.tears += 1;
                return self.read_part(location, len_bytes, is_remembered);
            }
            Judged::NotLive(_) | Judged::Torn => false,
        };
        self.tears = 0;
        match (is_remembered, collides) {
            (true, _) => self.descend(key, cache),
            // The slot was right, and led to another key with the same tag.
            (false, true) => self.next_slot(key, cache),
            (false, false) => self.again(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::pointer::NODE_BYTES;
    use crate::{AllocatorOptions, Crc64, PlainMemory, TreeOptions, TreeOwner, WordMemory};

    fn node_bytes(memory: &PlainMemory, at: u64) -> Vec<u8> {
        let mut bytes = vec![0; NODE_BYTES as usize];
        memory.copy_out(at, &mut bytes);
        bytes
    }

    /// The first words of a READ are those of a live leaf, and the others of the node that has its block later.
    #[test]
    fn a_key_is_not_absent_because_the_block_of_its_leaf_was_used_again() {
        let memory = PlainMemory::new(1 << 20);
        let allocator = AllocatorOptions { reuse_after_ns: 0, ..AllocatorOptions::default() };
        let mut tree =
            TreeOwner::<_, Crc64>::create(&memory, TreeOptions { allocator, ..TreeOptions::default() }).unwrap();
        (0..40_u32).for_each(|key| assert!(tree.put(&(key * 100).to_be_bytes(), b"v").is_ok()));
        let (mut lookup, mut nodes) = (TreeLookup::<Crc64>::new(1 << 20), NodeCache::new(0));
        let key = 3900_u32.to_be_bytes();
        let mut root = [0; ROOT_BYTES as usize];
        memory.copy_out(0, &mut root);
        assert!(matches!(lookup.start(&key, None, &mut nodes), LookupStep::Read(wanted) if wanted.at == 0));
        let LookupStep::Read(leaf) = lookup.feed(&key, &root, &mut nodes) else { panic!() };
        let early = node_bytes(&memory, leaf.at);

        let mut more = (0..4000_u32).filter(|key| key % 100 != 0);
        while memory.load(leaf.at) >> 62 != 1 || word_at(&early, 0) == memory.load(leaf.at) {
            assert!(tree.put(&more.next().unwrap().to_be_bytes(), b"v").is_ok());
        }
        let mixture = [&early[..64], &node_bytes(&memory, leaf.at)[64..]].concat();
        let LookupStep::Read(again) = lookup.feed(&key, &mixture, &mut nodes) else { panic!() };
        assert_eq!((again.at, again.len_bytes), (leaf.at, 8), "the mixture looks like a leaf without the key");
        let first_word = memory.load(leaf.at).to_le_bytes();
        assert!(matches!(lookup.feed(&key, &first_word, &mut nodes), LookupStep::Read(wanted) if wanted.at == 0));
    }
}

//! A reader's scan of a range of keys, as a state machine: it asks for READs and is fed their bytes.
//!
//! ```text
//!  cursor ─► leaf ─► slots, in the order of their heads ─► objects of a window, and the leaf's first word ─► items
//!    ▲                                                        │ dead, another key, leaf replaced
//!    ├────────────────────────────────────────────────────────┘
//!    └─ behind the leaf: its high fence is the cursor, its link the way
//! ```
//! A scan returns keys in ascending order, none twice. It returns each key of the range that was present during the whole scan.
//! It may or may not return a key that was inserted or deleted meanwhile. The value of each key was current at some time during
//! the scan. So a scan is no snapshot: values of two keys may be of two times.
//!
//! The first word of the leaf is read after its slots, so these were those of a live leaf. A key that stays has its slot there,
//! and the slot leads to an object that is live, or to one that was replaced meanwhile: then the scan returns to its cursor.

mod leaf;

use std::marker::PhantomData;

use crate::lookup::{ATTEMPTS, FoundObject, ReadRequest};
use crate::object::{Location, ObjectHeader, TornCheck};
use crate::root::{ROOT_BYTES, RootFault};
use crate::tree::cache::NodeCache;
use crate::tree::descent::{Descent, DescentStep, TreePlace};
use crate::tree::node::Aim;
use crate::tree::range::KeyRange;
use crate::tree::root::TreeRoot;
use crate::tree::scan::leaf::collect;
use crate::tree::separator::{LongSeparator, separator_hash};
use crate::tree::window::SlotRead;

/// The next step of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanStep {
    /// All of [`reads`](TreeScan::reads) are wanted, in any order and at the same time.
    Reads,
    /// There are [`items`](TreeScan::items) to take.
    Items,
    /// All items have been told.
    Done,
    /// Writers were in between each time. The scan can go on where it is.
    Busy,
    /// The memory is too short for a tree, or has something else.
    OtherFormat,
}

/// A key of a range, and its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanItem<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its object.
    pub object: FoundObject<'a>,
}

/// The place of an item in the scan's memory.
#[derive(Clone, Debug)]
struct ItemPlace {
    key: std::ops::Range<usize>,
    value_end: usize,
    header: ObjectHeader,
    location: Location,
}

#[derive(Clone, Copy, Debug)]
enum ScanStage {
    Root,
    Descent,
    Window,
    /// Items were told, or there were none: the next window.
    Told,
    /// The bytes of the leaf's high fence are on their way.
    Fence(LongSeparator),
    Busy,
    Done,
}

/// A scan of one range at a time.
#[derive(Debug)]
pub struct TreeScan<C> {
    root: Option<TreeRoot>,
    memory_bytes: u64,
    /// Objects that are read at a time.
    width: usize,
    range: KeyRange,
    /// Items that may still be told.
    left: usize,
    /// The keys below it are done.
    cursor: Vec<u8>,
    descent: Descent,
    /// The slots of the leaf that are not in a window yet, the highest head first.
    waiting: Vec<SlotRead>,
    window: Vec<SlotRead>,
    /// True if the leaf was live after its slots were read.
    is_confirmed: bool,
    reads: Vec<ReadRequest>,
    /// The READs of the window are of these slots; `None` is the first word of the leaf.
    readers: Vec<Option<usize>>,
    bytes: Vec<u8>,
    arena: Vec<u8>,
    items: Vec<ItemPlace>,
    stage: ScanStage,
    attempts: u32,
    scratch: Vec<u8>,
    check: PhantomData<C>,
}

impl<C: TornCheck> TreeScan<C> {
    /// A scan in the tree that lies in so many bytes. It reads up to `width` objects at a time.
    pub fn new(memory_bytes: u64, width: usize) -> TreeScan<C> {
        TreeScan {
            root: None,
            memory_bytes,
            width: width.max(1),
            range: KeyRange::all(),
            left: 0,
            cursor: Vec::new(),
            descent: Descent::new(),
            waiting: Vec::new(),
            window: Vec::new(),
            is_confirmed: false,
            reads: Vec::new(),
            readers: Vec::new(),
            bytes: Vec::new(),
            arena: Vec::new(),
            items: Vec::new(),
            stage: ScanStage::Done,
            attempts: 0,
            scratch: Vec::new(),
            check: PhantomData,
        }
    }

    /// The root record that it knows.
    pub fn root(&self) -> Option<TreeRoot> {
        self.root
    }

    /// Takes a root record that a lookup in the same tree has read. To be called between scans.
    pub fn learn(&mut self, root: TreeRoot) {
        self.root = Some(root);
    }

    /// Begins a scan of at most `limit` keys.
    pub fn start(&mut self, range: &KeyRange, limit: usize, cache: &mut NodeCache) -> ScanStep {
        self.range.clone_from(range);
        self.cursor.clear();
        self.cursor.extend_from_slice(range.first());
        (self.left, self.attempts) = (limit, 0);
        self.items.clear();
        if limit == 0 || range.is_empty() {
            self.stage = ScanStage::Done;
            return ScanStep::Done;
        }
        match self.root.filter(|_| !self.descent.root_moved()) {
            Some(_) => self.descend(cache),
            None => self.read_root(),
        }
    }

    /// The READs that the last step wants.
    pub fn reads(&self) -> &[ReadRequest] {
        &self.reads
    }

    /// Takes the bytes of a READ, by its place in [`reads`](TreeScan::reads).
    pub fn feed(&mut self, number: usize, bytes: &[u8]) {
        match (self.stage, self.readers.get(number).copied().flatten(), self.root) {
            (ScanStage::Window, Some(slot), Some(root)) => {
                let (arena, scratch) = (&mut self.arena, &mut self.scratch);
                if let Some(slot) = self.window.get_mut(slot) {
                    slot.feed::<C>(
                        (root.salt, self.descent.view().map_or(0, |leaf| leaf.skip())),
                        bytes,
                        arena,
                        scratch,
                    );
                }
            }
            _ => {
                self.bytes.clear();
                self.bytes.extend_from_slice(bytes);
            }
        }
    }

    /// The items of the last step, in the order of their keys.
    pub fn items(&self) -> impl Iterator<Item = ScanItem<'_>> {
        self.items.iter().map(|item| ScanItem {
            key: &self.arena[item.key.clone()],
            object: FoundObject {
                value: &self.arena[item.key.end..item.value_end],
                header: item.header,
                location: item.location,
            },
        })
    }

    /// The next step: after all READs are fed, after the items are taken, or after `Busy`.
    pub fn advance(&mut self, cache: &mut NodeCache) -> ScanStep {
        match self.stage {
            ScanStage::Root => match TreeRoot::decode(&self.bytes, C::CODE) {
                Ok(root) => {
                    self.root = Some(root);
                    self.descend(cache)
                }
                Err(RootFault::Torn) => self.again(),
                Err(RootFault::OtherFormat) => ScanStep::OtherFormat,
            },
            ScanStage::Descent => {
                let step = self.descent.feed(Aim::At(&self.cursor), &self.bytes, cache);
                self.on_descent(step)
            }
            ScanStage::Window => self.on_window(cache),
            ScanStage::Told if self.left == 0 => self.done(),
            ScanStage::Told => self.next_window(cache),
            ScanStage::Fence(long) => match self.root {
                Some(root) if separator_hash(root.salt, &self.bytes) == long.hash => {
                    let high = std::mem::take(&mut self.bytes);
                    self.next_leaf(high, cache)
                }
                _ => self.again(),
            },
            ScanStage::Busy => {
                self.attempts = 0;
                self.again()
            }
            ScanStage::Done => ScanStep::Done,
        }
    }

    fn done(&mut self) -> ScanStep {
        self.stage = ScanStage::Done;
        ScanStep::Done
    }

    fn read_one(&mut self, stage: ScanStage, at: u64, len_bytes: u64) -> ScanStep {
        self.stage = stage;
        self.reads.clear();
        self.readers.clear();
        self.reads.push(ReadRequest { at, len_bytes });
        ScanStep::Reads
    }

    fn read_root(&mut self) -> ScanStep {
        if self.memory_bytes < ROOT_BYTES {
            return ScanStep::OtherFormat;
        }
        self.read_one(ScanStage::Root, 0, ROOT_BYTES)
    }

    /// Returns to the cursor, by way of the root record.
    fn again(&mut self) -> ScanStep {
        self.attempts += 1;
        if self.attempts > ATTEMPTS {
            self.stage = ScanStage::Busy;
            return ScanStep::Busy;
        }
        self.read_root()
    }

    /// Begins at the root node. The first time, copies of inner nodes will do.
    fn descend(&mut self, cache: &mut NodeCache) -> ScanStep {
        let Some(root) = self.root else { return self.read_root() };
        let place = TreePlace { salt: root.salt, memory_bytes: self.memory_bytes };
        let copies = (self.attempts == 0).then_some(cache);
        let step = self.descent.start(place, (root.pointer, 0), Aim::At(&self.cursor), copies);
        self.on_descent(step)
    }

    fn on_descent(&mut self, step: DescentStep) -> ScanStep {
        match step {
            DescentStep::Read(wanted) => self.read_one(ScanStage::Descent, wanted.at, wanted.len_bytes),
            DescentStep::There => {
                let Some(view) = self.descent.view() else { return self.again() };
                collect(&view, &self.cursor, &self.range, &mut self.waiting);
                self.is_confirmed = false;
                self.begin_window()
            }
            DescentStep::Lost => self.again(),
        }
    }
}

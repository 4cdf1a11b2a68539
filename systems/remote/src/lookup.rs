//! A reader's search for one key, as a state machine: it asks for READs and is fed their bytes.
//!
//! ```text
//!            ┌──────────────── location that the reader remembers ───────────────┐
//!  root ─► slots ─► object: live, whole, the wanted key ─► found                 ▼
//!   ▲        │         └─ dead, torn, another incarnation ─► root again       object ─► found, or slots
//!   └────────┴─ no slot: read the root; unchanged since before the search ─► absent
//! ```
//! A value that is found was current while its READ took place: of one key, never two objects are live. A key is absent only
//! if no slot moved since before the search, because a moving slot could be overlooked.

use std::marker::PhantomData;

use crate::layout::{Candidate, IndexSearch, SearchStep, TableLayout};
use crate::object::{
    ATOMIC_BYTES, LOCK_MASK, Location, ObjectHeader, OpenObject, ReadGrain, Seal, SlotKind, TornCheck, Unopened,
};
use crate::root::{ROOT_BYTES, RootCopy, RootFault};

/// Larger blocks are read in two steps: their start first, which tells the object's length.
pub(crate) const FIRST_READ_BYTES: u64 = 16 << 10;
/// READs of one object that was torn, before the search begins anew.
pub(crate) const TEARS: u32 = 4;
/// Searches before the lookup says that it is [`Busy`](LookupStep::Busy).
pub(crate) const ATTEMPTS: u32 = 16;

/// Bytes that a lookup wants, from the start of the table's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// Where they begin.
    pub at: u64,
    /// Their number.
    pub len_bytes: u64,
}

/// An object that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundObject<'a> {
    /// The value, in the bytes that were fed.
    pub value: &'a [u8],
    /// The object's first word: its version, for compare-and-swap.
    pub header: ObjectHeader,
    /// Where it is: for a location cache, and for writers.
    pub location: Location,
}

/// The next step of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupStep<'a> {
    /// These bytes are wanted: READ them and feed them.
    Read(ReadRequest),
    /// The key has this value.
    Found(FoundObject<'a>),
    /// The key was absent at some time during the lookup.
    Absent,
    /// Writers were in between each time. The lookup can be started again.
    Busy,
    /// The memory is too short for a table, or has one with another layout or check.
    OtherFormat,
}

/// READs that a lookup has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookupCounts {
    /// Of root records.
    pub root: u32,
    /// Of slots.
    pub index: u32,
    /// Of objects.
    pub object: u32,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Idle,
    Root { confirms: bool },
    Index,
    Object { location: Location, len_bytes: u64, is_remembered: bool },
}

/// A lookup of one key at a time. It keeps the root record, so the next lookup needs no READ for it.
///
/// Several lookups at a time make a multi-get. None of them allocates, except for checks that copy values together.
#[derive(Debug)]
pub struct KeyLookup<L: TableLayout, C> {
    root: Option<RootCopy>,
    memory_bytes: u64,
    tag: u64,
    /// The bits of the tag that the slot of the present object has.
    tag_mask: u64,
    search: Option<L::Search>,
    stage: Stage,
    attempts: u32,
    tears: u32,
    counts: LookupCounts,
    scratch: Vec<u8>,
    check: PhantomData<C>,
}

impl<L: TableLayout, C: TornCheck> KeyLookup<L, C> {
    /// A lookup in the table that lies in so many bytes. It asks for no byte beyond them: slots that were read while their
    /// memory was used for something else, and hostile owners, lead anywhere.
    pub fn new(memory_bytes: u64) -> KeyLookup<L, C> {
        KeyLookup {
            root: None,
            memory_bytes,
            tag: 0,
            tag_mask: u64::MAX,
            search: None,
            stage: Stage::Idle,
            attempts: 0,
            tears: 0,
            counts: LookupCounts::default(),
            scratch: Vec::new(),
            check: PhantomData,
        }
    }

    /// The root record that it knows.
    pub fn root(&self) -> Option<RootCopy> {
        self.root
    }

    /// Takes a root record that another lookup in the same table has read, so that this one need not. To be called
    /// between lookups.
    pub fn learn(&mut self, root: RootCopy) {
        if matches!(self.stage, Stage::Idle) {
            self.root = Some(root);
        }
    }

    /// READs since [`start`](KeyLookup::start).
    pub fn counts(&self) -> LookupCounts {
        self.counts
    }

    /// The lock of the object that is wanted, if a READ has to bring it at one moment. The mask is that of
    /// [`QueuePair::read_object`](longarm::QueuePair::read_object). An object that is busy is fed as its first word alone.
    pub fn object_lock(&self) -> Option<u64> {
        match self.stage {
            Stage::Object { len_bytes, .. } if C::NEEDS == ReadGrain::Object && len_bytes <= ATOMIC_BYTES => {
                Some(LOCK_MASK)
            }
            _ => None,
        }
    }

    /// The tag by which slots and caches know a key; `None` before the root record has been read.
    pub fn tag_of(&self, key: &[u8]) -> Option<u64> {
        self.root.map(|root| L::tag(root.salt, key))
    }

    /// Begins a lookup: at the object, if the reader remembers its location, otherwise at the slots. The step is a READ,
    /// unless it is `Busy`.
    pub fn start(&mut self, key: &[u8], remembered: Option<Location>) -> LookupStep<'static> {
        (self.attempts, self.tears, self.counts) = (0, 0, LookupCounts::default());
        let Some(root) = self.root else {
            return self.read_root(false);
        };
        self.tag = L::tag(root.salt, key);
        self.search = None;
        match remembered.filter(|location| location.kind() == SlotKind::Object) {
            Some(location) => self.read_object(location, true),
            None => self.search(),
        }
    }

    /// Takes the bytes that the last step asked for. `key` is the key of [`start`](KeyLookup::start).
    pub fn feed<'a>(&'a mut self, key: &[u8], bytes: &'a [u8]) -> LookupStep<'a> {
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => LookupStep::Busy,
            Stage::Root { confirms } => self.on_root(key, bytes, confirms),
            Stage::Index => {
                if let Some(search) = &mut self.search {
                    search.feed(bytes);
                }
                self.search()
            }
            Stage::Object { location, len_bytes, is_remembered } => {
                self.on_object(key, bytes, location, len_bytes, is_remembered)
            }
        }
    }

    fn read_root(&mut self, confirms: bool) -> LookupStep<'static> {
        if !self.is_inside(0, ROOT_BYTES) {
            return LookupStep::OtherFormat;
        }
        self.stage = Stage::Root { confirms };
        self.counts.root += 1;
        LookupStep::Read(ReadRequest { at: 0, len_bytes: ROOT_BYTES })
    }

    fn is_inside(&self, at: u64, len_bytes: u64) -> bool {
        at.checked_add(len_bytes).is_some_and(|end| end <= self.memory_bytes)
    }

    /// Begins anew, with a root record that is read anew.
    fn again(&mut self) -> LookupStep<'static> {
        self.attempts += 1;
        self.tears = 0;
        if self.attempts > ATTEMPTS {
            return LookupStep::Busy;
        }
        self.read_root(false)
    }

    fn on_root(&mut self, key: &[u8], bytes: &[u8], confirms: bool) -> LookupStep<'static> {
        let root = match RootCopy::decode(bytes, L::CODE, C::CODE) {
            Ok(root) => root,
            Err(RootFault::Torn) => return self.again(),
            Err(RootFault::OtherFormat) => return LookupStep::OtherFormat,
        };
        let is_unchanged = root.is_at_rest() && self.root == Some(root);
        self.root = Some(root);
        if confirms && is_unchanged {
            return LookupStep::Absent;
        }
        if confirms {
            self.attempts += 1;
            if self.attempts > ATTEMPTS {
                return LookupStep::Busy;
            }
        }
        self.tag = L::tag(root.salt, key);
        self.search = None;
        self.search()
    }

    /// Goes on among the slots.
    fn search(&mut self) -> LookupStep<'static> {
        let Some(root) = self.root else { return self.again() };
        let (tag, search) = (self.tag, &mut self.search);
        match search.get_or_insert_with(|| L::search(&root.shape, tag)).step() {
            SearchStep::Read { at, len_bytes } if self.is_inside(at, len_bytes) => {
                self.stage = Stage::Index;
                self.counts.index += 1;
                LookupStep::Read(ReadRequest { at, len_bytes })
            }
            SearchStep::Candidate(Candidate { location, tag_mask, .. }) => {
                self.tag_mask = tag_mask;
                self.read_object(location, false)
            }
            SearchStep::Absent => self.read_root(true),
            SearchStep::Torn | SearchStep::Read { .. } => self.again(),
        }
    }

    fn read_object(&mut self, location: Location, is_remembered: bool) -> LookupStep<'static> {
        if !self.is_inside(location.offset(), location.class().bytes()) {
            return self.again();
        }
        self.read_part(location, location.class().bytes().min(FIRST_READ_BYTES), is_remembered)
    }

    fn read_part(&mut self, location: Location, len_bytes: u64, is_remembered: bool) -> LookupStep<'static> {
        self.stage = Stage::Object { location, len_bytes, is_remembered };
        self.counts.object += 1;
        LookupStep::Read(ReadRequest { at: location.offset(), len_bytes })
    }

    fn on_object<'a>(
        &'a mut self,
        key: &[u8],
        bytes: &'a [u8],
        location: Location,
        len_bytes: u64,
        is_remembered: bool,
    ) -> LookupStep<'a> {
        let Some(root) = self.root else { return self.again() };
        let seal = Seal::new(root.salt, location.offset());
        let verdict = match judge::<C>(seal, (location, len_bytes), bytes, &mut self.scratch) {
            Judged::Whole(object) => {
                let content = C::content(bytes, &self.scratch);
                if content[object.key.clone()] == *key {
                    let value = &C::content(bytes, &self.scratch)[object.value];
                    return LookupStep::Found(FoundObject { value, header: object.header, location });
                }
                let differs = (L::tag(root.salt, &content[object.key]) ^ self.tag) & self.tag_mask;
                ObjectVerdict::OtherKey {
                    collides: differs == 0 && object.header.incarnation() == location.incarnation(),
                }
            }
            Judged::NotLive(_) => ObjectVerdict::Stale,
            Judged::Longer(all) => ObjectVerdict::Longer(all),
            Judged::Torn => ObjectVerdict::Torn,
        };
        match verdict {
            ObjectVerdict::Longer(object_bytes) => self.read_part(location, object_bytes, is_remembered),
            ObjectVerdict::Torn if self.tears < TEARS => {
                self.tears += 1;
                self.read_part(location, len_bytes, is_remembered)
            }
            _ if is_remembered => {
                self.tears = 0;
                self.search()
            }
            ObjectVerdict::OtherKey { collides: true } => self.search(),
            ObjectVerdict::OtherKey { .. } | ObjectVerdict::Stale | ObjectVerdict::Torn => self.again(),
        }
    }
}

/// The bytes of a READ, beside the block that it was made for.
pub(crate) enum Judged {
    Whole(OpenObject),
    NotLive(ObjectHeader),
    Torn,
    /// The object has so many bytes, and its block as well: READ them all.
    Longer(u64),
}

/// Opens the first `len_bytes` of the block at a location.
pub(crate) fn judge<C: TornCheck>(
    seal: Seal,
    (location, len_bytes): (Location, u64),
    bytes: &[u8],
    scratch: &mut Vec<u8>,
) -> Judged {
    match C::open(seal, bytes, scratch) {
        Ok(object) => Judged::Whole(object),
        Err(Unopened::NotLive(header)) => Judged::NotLive(header),
        Err(Unopened::Longer(all)) if all <= location.class().bytes() && all > len_bytes => Judged::Longer(all),
        Err(Unopened::Torn | Unopened::Longer(_)) => Judged::Torn,
    }
}

/// A reader's opinion of the bytes of an object.
enum ObjectVerdict {
    /// Whole, with another key. If that has the same tag, the slot was right, and the search goes on.
    OtherKey {
        collides: bool,
    },
    Stale,
    Torn,
    Longer(u64),
}

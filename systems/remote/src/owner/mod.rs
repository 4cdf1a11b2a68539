//! The owner of a table: the only one who changes slots, and who makes and frees objects.
//!
//! ```text
//!  insert   write the object, pending ─► its slot ─► live
//!  update   lock ─► the bytes in place ─► next version, unlocked        if the block fits and the value is short
//!           write a new object, pending ─► old one dead ─► new one live ─► the slot        otherwise
//!  delete   dead ─► empty slot
//! ```
//! Each arrow is one store of a word, and readers see the steps in this order. So of one key at most one object is live at any
//! time. An owner that stops between two steps leaves readers of that key waiting, and of no other.

mod error;
mod find;
mod grow;
mod objects;
mod peers;

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::allocator::{AllocatorOptions, BlockAllocator};
use crate::layout::{TableLayout, TableShape};
use crate::memory::WordMemory;
use crate::object::{Location, ObjectHeader, SizeClass, TornCheck};
use crate::root::{ROOT_BYTES, RootCopy};

pub use error::OwnerError;
pub(crate) use objects::{ObjectStore, OwnObject, check_lengths, must_be_expected, must_be_unlocked};
pub use peers::{EndedLock, LastAccess, LockEnd, PeerTable};

/// Choices for a new table.
#[derive(Clone, Copy, Debug)]
pub struct OwnerOptions {
    /// Keys that the table has room for at first.
    pub keys: u64,
    /// False keeps the table as it is: then it may be full.
    pub may_grow: bool,
    /// Objects up to this length are changed in place, if their block has room. Longer ones are replaced, so that a torn
    /// object is rare.
    pub in_place_bytes: u64,
    /// Blocks of memory.
    pub allocator: AllocatorOptions,
    /// The table's secret, which goes into tags and checks: random by default. Readers know it; nobody else should, or
    /// they could choose keys that all collide.
    pub salt: u64,
}

impl Default for OwnerOptions {
    fn default() -> OwnerOptions {
        OwnerOptions {
            keys: 1024,
            may_grow: true,
            in_place_bytes: 1024,
            allocator: AllocatorOptions::default(),
            salt: RandomState::new().build_hasher().finish(),
        }
    }
}

/// The effect of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The key is new.
    Inserted(ObjectHeader),
    /// The key had another value before.
    Updated(ObjectHeader),
}

impl PutOutcome {
    /// The object's first word now.
    pub fn header(self) -> ObjectHeader {
        match self {
            PutOutcome::Inserted(header) | PutOutcome::Updated(header) => header,
        }
    }
}

/// The owner of a table: its writer. Its memory begins with the root record.
pub struct TableOwner<M, L: TableLayout, C> {
    objects: ObjectStore<M, C>,
    root: RootCopy,
    area_class: SizeClass,
    notes: L::Notes,
    options: OwnerOptions,
    keys: u64,
    /// Bytes of the index that a search reads.
    index_bytes: Vec<u8>,
}

impl<M: WordMemory, L: TableLayout, C: TornCheck> TableOwner<M, L, C> {
    /// Makes an empty table in all of the memory.
    ///
    /// # Errors
    /// If the memory is too short for the keys of the options.
    pub fn create(memory: M, options: OwnerOptions) -> Result<Self, OwnerError> {
        let range = ROOT_BYTES..memory.len_bytes().min(Location::MAX_OFFSET);
        let secrets = (options.salt, options.in_place_bytes);
        let mut objects = ObjectStore::new(memory, range, options.allocator, secrets);
        let (shape, area_class) = allocate_area::<M, L>(&objects.memory, &mut objects.blocks, options.keys)?;
        let root = RootCopy { sequence: 1 << 32, shape, salt: options.salt };
        root.store(&objects.memory, 0, L::CODE, C::CODE);
        Ok(TableOwner {
            objects,
            root,
            area_class,
            notes: L::Notes::default(),
            options,
            keys: 0,
            index_bytes: Vec::new(),
        })
    }

    /// Tells the time, which decides when freed memory is used again. Without it, none is.
    pub fn set_now(&mut self, now_ns: u64) {
        self.objects.blocks.set_now(now_ns);
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

    /// The root record.
    pub fn root(&self) -> RootCopy {
        self.root
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
        match self.find(key)? {
            Some(found) => self.update(&found, key, value).map(PutOutcome::Updated),
            None => self.insert(key, value).map(PutOutcome::Inserted),
        }
    }

    /// Gives a key a value, if its object has this first word now; `None` means that the key must be absent.
    ///
    /// # Errors
    /// As [`put`](TableOwner::put), and if the object is another one.
    pub fn compare_and_put(
        &mut self,
        key: &[u8],
        value: &[u8],
        expected: Option<ObjectHeader>,
    ) -> Result<PutOutcome, OwnerError> {
        check_lengths(key, value)?;
        let found = self.find(key)?;
        must_be_expected(found.as_ref(), expected)?;
        match found {
            Some(found) => self.update(&found, key, value).map(PutOutcome::Updated),
            None => self.insert(key, value).map(PutOutcome::Inserted),
        }
    }

    /// Deletes a key. Returns false if it was absent.
    ///
    /// # Errors
    /// If a peer has the lock of the object.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, OwnerError> {
        let Some(found) = self.find(key)? else { return Ok(false) };
        must_be_unlocked(&found)?;
        self.objects.kill(&found)?;
        L::clear(&self.objects.memory, found.slot_at);
        self.objects.free(found.location);
        self.keys -= 1;
        Ok(true)
    }

    /// The value and the first word of a key's object, read by the owner itself.
    ///
    /// # Errors
    /// If a peer has broken the index.
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
    /// If a peer has broken the index.
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

    /// Gives an object a new value whose lock a writer holds that is gone, and unlocks it. `held` is the word that the
    /// caller has judged: the writer's lease has ended, and its right to write was revoked before.
    ///
    /// # Errors
    /// If the object has another first word by now, or is absent.
    pub fn break_lock(&mut self, key: &[u8], held: ObjectHeader, value: &[u8]) -> Result<ObjectHeader, OwnerError> {
        check_lengths(key, value)?;
        let found = self.find(key)?.ok_or(OwnerError::OtherVersion(None))?;
        if found.header != held || held.holder() == 0 {
            return Err(OwnerError::OtherVersion(Some(found.header)));
        }
        // The writer may have left any bytes, lengths included: the key is the caller's.
        let tag = L::tag(self.root.salt, key);
        let relocate = |memory: &M, location| L::relocate(memory, found.slot_at, tag, location);
        self.objects.replace(&found, (key, value), relocate)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<ObjectHeader, OwnerError> {
        let version = self.objects.first_version();
        let (location, pending) = self.objects.write_pending(key, value, version)?;
        if let Err(error) = self.fill_slot(L::tag(self.root.salt, key), location) {
            self.objects.free(location);
            return Err(error);
        }
        self.keys += 1;
        Ok(self.objects.make_live(location, pending))
    }

    fn update(&mut self, found: &OwnObject, key: &[u8], value: &[u8]) -> Result<ObjectHeader, OwnerError> {
        let tag = L::tag(self.root.salt, key);
        let relocate = |memory: &M, location| L::relocate(memory, found.slot_at, tag, location);
        self.objects.update(found, (key, value), relocate)
    }
}

/// Zeroed slots for so many keys.
fn allocate_area<M: WordMemory, L: TableLayout>(
    memory: &M,
    blocks: &mut BlockAllocator,
    keys: u64,
) -> Result<(TableShape, SizeClass), OwnerError> {
    let shape = L::shape(keys);
    let area_bytes = L::area_bytes(&shape);
    let class = SizeClass::of(area_bytes).ok_or(OwnerError::TooShort(area_bytes))?;
    let area = blocks.allocate(class)?;
    let zeros = [0; 4096];
    for at in (0..area_bytes).step_by(zeros.len()) {
        memory.copy_in(area + at, &zeros[..(area_bytes - at).min(4096) as usize]);
    }
    Ok((TableShape { area, ..shape }, class))
}

//! The owner's objects: making, changing, replacing and killing them. The index over them is somebody else's.

use std::marker::PhantomData;
use std::ops::Range;

use crate::allocator::{AllocatorOptions, BlockAllocator};
use crate::memory::WordMemory;

use crate::object::{
    Location, MAX_KEY_BYTES, MAX_VALUE_BYTES, ObjectHeader, ObjectState, Seal, SizeClass, TornCheck, mixed,
};
use crate::owner::OwnerError;

/// The owner's number as the holder of a lock.
pub(super) const OWNER: u16 = u16::MAX;
/// Changes by peers between two looks at an object, before it counts as locked.
const PEERS_IN_BETWEEN: u32 = 1000;

/// An object of a key, as the owner finds it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnObject {
    pub(crate) location: Location,
    pub(crate) slot_at: u64,
    pub(crate) header: ObjectHeader,
    pub(crate) value_bytes: u64,
}

/// The objects of a table, and the memory that they are in.
pub(crate) struct ObjectStore<M, C> {
    pub(crate) memory: M,
    pub(crate) blocks: BlockAllocator,
    /// The key that was copied last.
    pub(crate) scratch: Vec<u8>,
    salt: u64,
    in_place_bytes: u64,
    incarnation: u16,
    /// Objects that were made for new keys.
    inserted: u64,
    pub(super) image: Vec<u8>,
    check: PhantomData<C>,
}

impl<M: WordMemory, C: TornCheck> ObjectStore<M, C> {
    /// Objects in that range of the memory.
    pub(crate) fn new(
        memory: M,
        range: Range<u64>,
        allocator: AllocatorOptions,
        (salt, in_place_bytes): (u64, u64),
    ) -> ObjectStore<M, C> {
        ObjectStore {
            memory,
            blocks: BlockAllocator::new(range, allocator),
            scratch: Vec::new(),
            salt,
            in_place_bytes,
            incarnation: 0,
            inserted: 0,
            image: Vec::new(),
            check: PhantomData,
        }
    }

    /// Copies the key of an object to the scratch memory.
    pub(crate) fn copy_key(&mut self, location: Location) -> Result<(), OwnerError> {
        let (at, class) = (location.offset(), location.class());
        if !self.blocks.is_held(at, class) {
            return Err(OwnerError::Broken);
        }
        let (_, (key_bytes, _)) = self.lengths((at, class.bytes()))?;
        self.scratch.clear();
        C::copy_content(&self.memory, at, 0, &mut self.scratch, key_bytes);
        Ok(())
    }

    /// The first word and both lengths of a live object. Beside the lock of a peer, which may be writing, the value's length
    /// is zero. The peer writes the key's length, too, but the same as before.
    fn lengths(&self, (at, block_bytes): (u64, u64)) -> Result<(ObjectHeader, (u64, u64)), OwnerError> {
        let header = || ObjectHeader::from_word(self.memory.load(at));
        let mut before = header();
        for _ in 0..PEERS_IN_BETWEEN {
            let key_bytes = self.memory.load(at + 16) >> 32;
            let fits = key_bytes <= MAX_KEY_BYTES as u64 && C::object_bytes(key_bytes, 0) <= block_bytes;
            let lengths = C::lengths(&self.memory, at, block_bytes);
            let now = header();
            match lengths {
                _ if now.state() != ObjectState::Live => return Err(OwnerError::Broken),
                _ if is_a_peers(now) && fits => return Ok((now, (key_bytes, 0))),
                Some(lengths) if now == before => return Ok((now, lengths)),
                None if now == before => return Err(OwnerError::Broken),
                _ => before = now,
            }
        }
        Err(OwnerError::Locked(before))
    }

    /// The version with which a new key's object begins. Its block has had other objects: a peer that stood still since it
    /// found one of those must not take this one for it. The incarnation alone has 14 bits.
    pub(crate) fn first_version(&mut self) -> u32 {
        self.inserted += 1;
        (mixed(self.salt ^ self.inserted) >> 32) as u32
    }

    /// Copies the value of an object whose key has so many bytes.
    pub(crate) fn copy_value(&self, location: Location, (key_bytes, value_bytes): (u64, u64), value: &mut Vec<u8>) {
        C::copy_content(&self.memory, location.offset(), key_bytes, value, value_bytes);
    }

    /// Appends bytes of an object's key and value, from `from` on.
    pub(crate) fn copy_part(&self, location: Location, from: u64, len_bytes: u64, part: &mut Vec<u8>) {
        C::copy_content(&self.memory, location.offset(), from, part, len_bytes);
    }

    /// The object to which a slot leads, if it has this key.
    pub(crate) fn look(
        &mut self,
        (location, slot_at): (Location, u64),
        key: &[u8],
    ) -> Result<Option<OwnObject>, OwnerError> {
        let (at, block_bytes) = (location.offset(), location.class().bytes());
        if !self.blocks.is_held(at, location.class()) {
            return Err(OwnerError::Broken);
        }
        let (header, (key_bytes, value_bytes)) = self.lengths((at, block_bytes))?;
        if key_bytes != key.len() as u64 {
            return Ok(None);
        }
        self.scratch.clear();
        C::copy_content(&self.memory, at, 0, &mut self.scratch, key_bytes);
        Ok((self.scratch == key).then_some(OwnObject { location, slot_at, header, value_bytes }))
    }

    /// Writes an object that no reader takes for valid yet.
    pub(crate) fn write_pending(
        &mut self,
        key: &[u8],
        value: &[u8],
        version: u32,
    ) -> Result<(Location, ObjectHeader), OwnerError> {
        let object_bytes = C::object_bytes(key.len() as u64, value.len() as u64);
        let class = SizeClass::of(object_bytes).ok_or(OwnerError::ValueTooLong(value.len()))?;
        let at = self.blocks.allocate(class)?;
        self.incarnation = self.incarnation.wrapping_add(1);
        let location = Location::new(at, class, self.incarnation);
        let pending = ObjectHeader::new(ObjectState::Pending, location.incarnation(), version);
        self.memory.store(at, pending.word());
        C::encode(Seal::new(self.salt, at), pending, key, value, &mut self.image);
        C::store_body(&self.memory, at, &self.image);
        Ok((location, pending))
    }

    /// Makes a pending object the current one of its key.
    pub(crate) fn make_live(&mut self, location: Location, pending: ObjectHeader) -> ObjectHeader {
        let live = pending.with_state(ObjectState::Live);
        self.memory.store(location.offset(), live.word());
        live
    }

    /// Gives an object a new value, in place or by another object. `relocate` then leads the slot to that.
    pub(crate) fn update(
        &mut self,
        found: &OwnObject,
        (key, value): (&[u8], &[u8]),
        relocate: impl FnOnce(&M, Location),
    ) -> Result<ObjectHeader, OwnerError> {
        must_be_unlocked(found)?;
        let object_bytes = C::object_bytes(key.len() as u64, value.len() as u64);
        let class = found.location.class();
        let fits = object_bytes <= class.bytes() && SizeClass::of(object_bytes) == Some(class);
        if !fits || object_bytes > self.in_place_bytes {
            return self.replace(found, (key, value), relocate);
        }
        let at = found.location.offset();
        self.swap_header(found, found.header.held_by(OWNER))?;
        let next = found.header.next();
        C::encode(Seal::new(self.salt, at), next, key, value, &mut self.image);
        C::store_body(&self.memory, at, &self.image);
        self.memory.store(at, next.word());
        Ok(next)
    }

    /// Writes another object, and leads the slot to it.
    pub(crate) fn replace(
        &mut self,
        found: &OwnObject,
        (key, value): (&[u8], &[u8]),
        relocate: impl FnOnce(&M, Location),
    ) -> Result<ObjectHeader, OwnerError> {
        let (location, pending) = self.write_pending(key, value, found.header.version().wrapping_add(1))?;
        if let Err(error) = self.kill(found) {
            self.free(location);
            return Err(error);
        }
        let live = self.make_live(location, pending);
        relocate(&self.memory, location);
        self.free(found.location);
        Ok(live)
    }

    /// Makes an object dead, if its first word is still the one that was found.
    pub(crate) fn kill(&mut self, found: &OwnObject) -> Result<(), OwnerError> {
        self.swap_header(found, found.header.held_by(0).with_state(ObjectState::Dead))
    }

    /// Frees the block of an object.
    pub(crate) fn free(&mut self, location: Location) {
        self.blocks.free(location.offset(), location.class());
    }

    pub(super) fn swap_header(&mut self, found: &OwnObject, to: ObjectHeader) -> Result<(), OwnerError> {
        let before = self.memory.compare_swap(found.location.offset(), found.header.word(), to.word());
        match ObjectHeader::from_word(before) {
            before if before == found.header => Ok(()),
            before if before.holder() != 0 => Err(OwnerError::Locked(before)),
            before => Err(OwnerError::OtherVersion(Some(before))),
        }
    }
}

/// The owner never takes a lock that a peer has. It may have the lock itself.
pub(crate) fn must_be_unlocked(found: &OwnObject) -> Result<(), OwnerError> {
    if is_a_peers(found.header) { Err(OwnerError::Locked(found.header)) } else { Ok(()) }
}

/// True if a peer has the lock.
pub(super) fn is_a_peers(header: ObjectHeader) -> bool {
    !matches!(header.holder(), 0 | OWNER)
}

/// The object that a caller who compares versions expects.
pub(crate) fn must_be_expected(found: Option<&OwnObject>, expected: Option<ObjectHeader>) -> Result<(), OwnerError> {
    let present = found.map(|found| found.header);
    let is_expected = present.map(|header| header.held_by(0)) == expected.map(|header| header.held_by(0));
    if is_expected { Ok(()) } else { Err(OwnerError::OtherVersion(present)) }
}

pub(crate) fn check_lengths(key: &[u8], value: &[u8]) -> Result<(), OwnerError> {
    match (key.len(), value.len()) {
        (long, _) if long > MAX_KEY_BYTES => Err(OwnerError::KeyTooLong(long)),
        (_, long) if long > MAX_VALUE_BYTES => Err(OwnerError::ValueTooLong(long)),
        _ => Ok(()),
    }
}

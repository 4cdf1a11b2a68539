//! Peers that write objects alone, beside the owner: their locks, their copies, and the end of a peer that is gone.
//!
//! A peer stores the whole new object in a block of its own first, its *copy*. Then it takes the lock, writes the object, and
//! unlocks it ([`OneSidedUpdate`](crate::OneSidedUpdate)). So a peer that dies with the lock has left the new object in its
//! copy, however much of the old one it has overwritten.

use crate::layout::TableLayout;
use crate::memory::{WordMemory, word_at};
use crate::object::{ObjectHeader, Seal, SizeClass, TornCheck};
use crate::owner::objects::{OWNER, OwnObject, is_a_peers, must_be_unlocked};
use crate::owner::{OwnerError, TableOwner};

/// The end of a lock whose holder is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEnd {
    /// The object had no lock of this holder, or is absent.
    Free,
    /// It has the value that the holder was writing.
    Completed,
    /// It has the value from before.
    TakenBack,
    /// The holder broke the rules and left neither: the key is absent now.
    Lost,
}

/// The operations of an owner whose peers write, too, for tables of any layout.
pub trait PeerTable {
    /// Takes the lock of a key's object for the owner; false if the key is absent. Then the owner's operations on this key
    /// are one: peers change nothing in between. Each ends with a change, or with [`unlock`](PeerTable::unlock).
    ///
    /// # Errors
    /// [`OwnerError::Locked`] if a peer has it.
    fn lock(&mut self, key: &[u8]) -> Result<bool, OwnerError>;

    /// Gives the owner's lock of a key's object back, if it still has it.
    fn unlock(&mut self, key: &[u8]);

    /// A block of that length in the table's memory for the copies of one peer, and where it begins.
    ///
    /// # Errors
    /// If there is no room.
    fn lend_copy(&mut self, len_bytes: u64) -> Result<u64, OwnerError>;

    /// Takes a block back: that of [`lend_copy`](PeerTable::lend_copy), or one that a lock [left](EndedLock::left).
    fn return_copy(&mut self, at: u64, len_bytes: u64);

    /// The key of the object whose copy a peer has left last, if the bytes are any.
    fn copied_key(&self, at: u64, len_bytes: u64) -> Option<Vec<u8>>;

    /// Ends a peer's lock of a key's object. Its right to write must have been revoked before. `copy` is its block and the
    /// block's length. `last_access` tells whether one access of the peer may still be under way: then the object moves to
    /// another block, and the old one stays in use until the caller [returns](PeerTable::return_copy) it.
    ///
    /// # Errors
    /// If a peer has broken the index, or there is no room for another block.
    fn end_lock(
        &mut self,
        key: &[u8],
        holder: u16,
        copy: Option<(u64, u64)>,
        last_access: LastAccess,
    ) -> Result<EndedLock, OwnerError>;
}

/// Whether an access of a peer may be under way whose right is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastAccess {
    /// None is.
    Over,
    /// One may be: of a process that stands still in the middle of it.
    MayCome,
}

/// A lock that was ended, and the block in which a last access may arrive: where it begins, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedLock {
    /// The object's fate.
    pub end: LockEnd,
    /// The block to keep.
    pub left: Option<(u64, u64)>,
}

impl<M: WordMemory, L: TableLayout, C: TornCheck> PeerTable for TableOwner<M, L, C> {
    fn lock(&mut self, key: &[u8]) -> Result<bool, OwnerError> {
        let Some(found) = self.find(key)? else { return Ok(false) };
        must_be_unlocked(&found)?;
        self.objects.swap_header(&found, found.header.held_by(OWNER)).map(|()| true)
    }

    fn unlock(&mut self, key: &[u8]) {
        if let Ok(Some(found)) = self.find(key)
            && found.header.holder() == OWNER
        {
            self.objects.memory.store(found.location.offset(), found.header.held_by(0).word());
        }
    }

    fn lend_copy(&mut self, len_bytes: u64) -> Result<u64, OwnerError> {
        let class = SizeClass::of(len_bytes).ok_or(OwnerError::TooShort(len_bytes))?;
        let at = self.objects.blocks.allocate(class)?;
        // Nobody takes what was here before for a copy.
        self.objects.memory.copy_in(at, &[0; 24]);
        Ok(at)
    }

    fn return_copy(&mut self, at: u64, len_bytes: u64) {
        if let Some(class) = SizeClass::of(len_bytes) {
            self.objects.blocks.free(at, class);
        }
    }

    fn copied_key(&self, at: u64, len_bytes: u64) -> Option<Vec<u8>> {
        let (key_bytes, _) = C::lengths(&self.objects.memory, at, len_bytes)?;
        let mut key = Vec::new();
        C::copy_content(&self.objects.memory, at, 0, &mut key, key_bytes);
        Some(key)
    }

    fn end_lock(
        &mut self,
        key: &[u8],
        holder: u16,
        copy: Option<(u64, u64)>,
        last_access: LastAccess,
    ) -> Result<EndedLock, OwnerError> {
        let found = self.find(key)?.filter(|found| is_a_peers(found.header) && found.header.holder() == holder);
        let Some(found) = found else { return Ok(EndedLock { end: LockEnd::Free, left: None }) };
        let (end, image) = self.rescued(&found, key, copy);
        let place = (found.location.offset(), found.location.class().bytes());
        match (last_access, image) {
            (LastAccess::Over, Some(image)) => {
                C::store_body(&self.objects.memory, place.0, &image);
                self.objects.memory.store(place.0, word_at(&image, 0));
                Ok(EndedLock { end, left: None })
            }
            (LastAccess::Over, None) => {
                self.lose(&found)?;
                self.objects.free(found.location);
                Ok(EndedLock { end, left: None })
            }
            (LastAccess::MayCome, Some(image)) => {
                self.move_away(&found, key, &image)?;
                Ok(EndedLock { end, left: Some(place) })
            }
            (LastAccess::MayCome, None) => {
                self.lose(&found)?;
                Ok(EndedLock { end, left: Some(place) })
            }
        }
    }
}

impl<M: WordMemory, L: TableLayout, C: TornCheck> TableOwner<M, L, C> {
    /// The whole object that a peer left, unlocked, and what that means. `None`: it left none.
    fn rescued(&self, found: &OwnObject, key: &[u8], copy: Option<(u64, u64)>) -> (LockEnd, Option<Vec<u8>>) {
        let (before, next) = (found.header.held_by(0), found.header.next());
        let own = (found.location.offset(), found.location.class().bytes());
        if let Some(image) = copy.and_then(|copy| self.whole(found, key, copy, next)) {
            return (LockEnd::Completed, Some(image));
        }
        // Without a copy the object itself tells how far the holder came.
        if let Some(image) = self.whole(found, key, own, before) {
            return (LockEnd::TakenBack, Some(image));
        }
        match self.whole(found, key, own, next) {
            Some(image) => (LockEnd::Completed, Some(image)),
            None => (LockEnd::Lost, None),
        }
    }

    /// Leads the key to another object with the content of that image. A last access to the old one makes nothing of it
    /// that is whole and live: one store brings its first word, or its other bytes, and not both.
    fn move_away(&mut self, found: &OwnObject, key: &[u8], image: &[u8]) -> Result<(), OwnerError> {
        let (seal, mut scratch) = (Seal::new(self.root.salt, found.location.offset()), Vec::new());
        let object = C::open(seal, image, &mut scratch).map_err(|_| OwnerError::Broken)?;
        let value = &C::content(image, &scratch)[object.value];
        let version = found.header.version().wrapping_add(1);
        let (location, pending) = self.objects.write_pending(key, value, version)?;
        if let Err(error) = self.objects.kill(found) {
            self.objects.free(location);
            return Err(error);
        }
        self.objects.make_live(location, pending);
        L::relocate(&self.objects.memory, found.slot_at, L::tag(self.root.salt, key), location);
        self.objects.memory.copy_in(found.location.offset() + 8, &[0; 16]);
        Ok(())
    }

    /// Removes a key whose object is no longer whole. Its block stays in use.
    fn lose(&mut self, found: &OwnObject) -> Result<(), OwnerError> {
        self.objects.kill(found)?;
        L::clear(&self.objects.memory, found.slot_at);
        self.objects.memory.copy_in(found.location.offset() + 8, &[0; 16]);
        self.keys = self.keys.saturating_sub(1);
        Ok(())
    }

    /// The bytes at a place, if they are the whole object of that key with that first word, for the place of `found`.
    fn whole(
        &self,
        found: &OwnObject,
        key: &[u8],
        (at, len_bytes): (u64, u64),
        header: ObjectHeader,
    ) -> Option<Vec<u8>> {
        let (mut bytes, mut scratch) = (vec![0; len_bytes as usize], Vec::new());
        self.objects.memory.copy_out(at, &mut bytes);
        bytes[..8].copy_from_slice(&header.word().to_le_bytes());
        let seal = Seal::new(self.root.salt, found.location.offset());
        let object = C::open(seal, &bytes, &mut scratch).ok()?;
        let content = C::content(&bytes, &scratch);
        let object_bytes = C::object_bytes(object.key.len() as u64, object.value.len() as u64);
        let fits = content[object.key.clone()] == *key && object_bytes <= found.location.class().bytes();
        bytes.truncate(object_bytes as usize);
        fits.then_some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, Crc64, Found, KeyLookup, LocalReads, OneSidedUpdate, OwnerOptions, PlainMemory, UpdateStep};

    const HOLDER: u16 = 5;
    const COPY_BYTES: u64 = 256;

    struct Scene {
        memory: PlainMemory,
    }

    impl Scene {
        fn new() -> Scene {
            Scene { memory: PlainMemory::new(1 << 20) }
        }

        fn owner(&self) -> TableOwner<&PlainMemory, Cluster, Crc64> {
            let mut owner = TableOwner::create(&self.memory, OwnerOptions::default()).unwrap();
            owner.put(b"other", b"x").unwrap();
            owner.put(b"key", &[1; 100]).unwrap();
            owner
        }

        fn found(&self) -> Result<Found, crate::LookupError> {
            let mut lookup = KeyLookup::<Cluster, Crc64>::new(self.memory.len_bytes());
            LocalReads::new(&self.memory).run(&mut lookup, b"key", None)
        }

        /// A peer's update up to so many words after it took the lock.
        fn peer(&self, root: &crate::RootCopy, copy_at: Option<u64>, words: usize) {
            let mut lookup = KeyLookup::<Cluster, Crc64>::new(self.memory.len_bytes());
            let mut reads = LocalReads::new(&self.memory);
            reads.run(&mut lookup, b"key", None).unwrap();
            let location = reads.location().unwrap();
            let header = ObjectHeader::from_word(self.memory.load(location.offset()));
            let mut update = OneSidedUpdate::<Crc64>::new();
            let step = update.start(root, (header, location), HOLDER, b"key", &[2; 90]).unwrap();
            let UpdateStep::CompareSwap { at, compare, swap } = step else { panic!("{step:?}") };
            if let Some(copy_at) = copy_at {
                self.memory.copy_in(copy_at, update.image());
            }
            let before = self.memory.compare_swap(at, compare, swap);
            let UpdateStep::Write { at, body, .. } = update.swapped(before) else { panic!() };
            for (number, word) in body.chunks(8).enumerate().take(words) {
                self.memory.copy_in(at + number as u64 * 8, word);
            }
        }
    }

    #[test]
    fn wherever_a_peer_dies_its_copy_completes_the_change() {
        for words in 0..20 {
            let scene = Scene::new();
            let mut owner = scene.owner();
            let copy = owner.lend_copy(COPY_BYTES).unwrap();
            scene.peer(&owner.root(), Some(copy), words);
            assert!(matches!(owner.lock(b"key"), Err(OwnerError::Locked(header)) if header.holder() == HOLDER));
            assert_eq!(owner.copied_key(copy, COPY_BYTES).as_deref(), Some(&b"key"[..]));
            let place = Some((copy, COPY_BYTES));
            let mut end =
                |key: &[u8], holder| owner.end_lock(key, holder, place, LastAccess::Over).map(|ended| ended.end);
            assert_eq!(end(b"key", HOLDER + 1), Ok(LockEnd::Free));
            assert_eq!(end(b"other", HOLDER), Ok(LockEnd::Free));
            assert_eq!(end(b"key", HOLDER), Ok(LockEnd::Completed));
            assert_eq!(end(b"key", HOLDER), Ok(LockEnd::Free));
            assert_eq!(scene.found(), Ok(Found::Value(vec![2; 90])));
            assert_eq!(owner.lock(b"key"), Ok(true));
            owner.unlock(b"key");
            owner.return_copy(copy, COPY_BYTES);
        }
    }

    #[test]
    fn a_peer_that_left_no_copy_is_taken_back_or_loses_the_key() {
        let mut ends = Vec::new();
        for words in 0..20 {
            let scene = Scene::new();
            let mut owner = scene.owner();
            scene.peer(&owner.root(), None, words);
            let EndedLock { end, left } = owner.end_lock(b"key", HOLDER, None, LastAccess::Over).unwrap();
            assert_eq!(left, None);
            match end {
                LockEnd::TakenBack => assert_eq!(scene.found(), Ok(Found::Value(vec![1; 100]))),
                LockEnd::Completed => assert_eq!(scene.found(), Ok(Found::Value(vec![2; 90]))),
                LockEnd::Lost => assert_eq!((scene.found(), owner.len()), (Ok(Found::Absent), 1)),
                LockEnd::Free => panic!("it was locked"),
            }
            ends.push(end);
            assert!(owner.put(b"key", b"again").is_ok());
        }
        ends.dedup();
        assert_eq!(ends, [LockEnd::TakenBack, LockEnd::Lost, LockEnd::Completed]);
    }

    #[test]
    fn a_last_access_that_comes_late_changes_nothing() {
        for (words, has_copy, late_first_word) in (0..20)
            .flat_map(|words| [(words, true, true), (words, true, false), (words, false, true), (words, false, false)])
        {
            let scene = Scene::new();
            let mut owner = scene.owner();
            let copy = owner.lend_copy(COPY_BYTES).unwrap();
            scene.peer(&owner.root(), has_copy.then_some(copy), words);
            let mut lookup = KeyLookup::<Cluster, Crc64>::new(scene.memory.len_bytes());
            let mut reads = LocalReads::new(&scene.memory);
            let (mut late, body) = (Vec::new(), owner.objects.memory);
            let ended = owner.end_lock(b"key", HOLDER, Some((copy, COPY_BYTES)), LastAccess::MayCome).unwrap();
            let (at, len_bytes) = ended.left.unwrap();
            let old = crate::Location::new(at, SizeClass::of(len_bytes).unwrap(), 2);
            let wanted = match ended.end {
                LockEnd::Completed => Ok(Found::Value(vec![2; 90])),
                LockEnd::TakenBack => Ok(Found::Value(vec![1; 100])),
                LockEnd::Lost => Ok(Found::Absent),
                LockEnd::Free => panic!("it was locked"),
            };
            assert!(has_copy == (ended.end == LockEnd::Completed) || !has_copy);
            // Either the first word arrives, or the rest, as the peer had encoded it.
            let dead = ObjectHeader::from_word(body.load(at));
            let next = ObjectHeader::new(crate::ObjectState::Live, dead.incarnation(), dead.version() + 1);
            Crc64::encode(Seal::new(owner.root().salt, at), next, b"key", &[2; 90], &mut late);
            match late_first_word {
                true => body.store(at, next.word()),
                false => body.copy_in(at + 8, &late[8..]),
            }
            for remembered in [None, Some(old)] {
                assert_eq!(reads.run(&mut lookup, b"key", remembered), wanted, "{words} words");
            }
            assert!(owner.put(b"key", b"again").is_ok());
            // The block is not given out again before it is returned.
            owner.set_now(1 << 40);
            assert!(owner.objects.blocks.is_held(at, SizeClass::of(len_bytes).unwrap()));
            owner.return_copy(at, len_bytes);
            assert!(!owner.objects.blocks.is_held(at, SizeClass::of(len_bytes).unwrap()));
        }
    }

    #[test]
    fn the_owners_lock_keeps_peers_out_and_ends_with_its_change() {
        let scene = Scene::new();
        let mut owner = scene.owner();
        let header = |owner: &mut TableOwner<&PlainMemory, Cluster, Crc64>| owner.get(b"key", &mut Vec::new()).unwrap();
        assert_eq!(owner.lock(b"absent"), Ok(false));
        for _ in 0..2 {
            assert_eq!(owner.lock(b"key"), Ok(true));
        }
        let locked = header(&mut owner).unwrap();
        assert_eq!(locked.holder(), OWNER);
        assert!(matches!(scene.found(), Ok(Found::Value(_))), "readers go on");
        owner.unlock(b"key");
        assert_eq!(header(&mut owner).unwrap(), locked.held_by(0));
        for value in [&[3; 100][..], &[4; 5000]] {
            owner.lock(b"key").unwrap();
            owner.put(b"key", value).unwrap();
            assert_eq!(header(&mut owner).unwrap().holder(), 0);
            assert_eq!(scene.found(), Ok(Found::Value(value.to_vec())));
        }
        owner.lock(b"key").unwrap();
        assert_eq!((owner.delete(b"key"), scene.found()), (Ok(true), Ok(Found::Absent)));
    }
}

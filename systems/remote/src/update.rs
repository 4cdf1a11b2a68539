//! One-sided updates: a peer locks an object, writes it, and unlocks it, without the owner's processor.
//!
//! ```text
//!  compare-and-swap of the first word: unlocked ─► locked by us
//!  WRITE of the rest, then WRITE of the first word: the next version, unlocked
//! ```
//! The object keeps its place and its block. A peer that dies in between leaves the lock. The owner breaks it
//! ([`break_lock`](crate::TableOwner::break_lock)) once the peer's lease has ended and its right to write is revoked.
//! (Wei, Shi, Chen, Chen, Chen, SOSP 2015, section 5: DrTM-KV.)

use std::marker::PhantomData;

use crate::object::{Location, ObjectHeader, ObjectState, Seal, TornCheck};
use crate::root::RootCopy;

/// The next step of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateStep<'a> {
    /// Compare-and-swap this word; feed the word before.
    CompareSwap {
        /// The word.
        at: u64,
        /// The wanted value.
        compare: u64,
        /// The value to store.
        swap: u64,
    },
    /// WRITE the bytes, and then the word: two requests of one queue pair. Then the update is done.
    Write {
        /// Where the bytes go.
        at: u64,
        /// The object but for its first word.
        body: &'a [u8],
        /// Where the word goes.
        header_at: u64,
        /// The first word.
        header: ObjectHeader,
    },
    /// Another writer was faster: the first word is this one. Look the key up again.
    Conflict(ObjectHeader),
}

/// The reason why a peer cannot update an object alone. The owner can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateRefusal {
    /// The check needs an order of stores that WRITEs do not have.
    #[error("objects with this check are written by their owner only")]
    OwnerOnly,
    /// Zero means unlocked, and the highest number is the owner's.
    #[error("{0} is no number of a peer")]
    NoHolder(u16),
    /// The count of the object's changes ends here. The owner begins another one, so that no version comes again.
    #[error("the object has changed 2^32 times: its owner has to do this change")]
    LastVersion,
    /// The object does not fit its block.
    #[error("the object would have {object_bytes} bytes, and its block has {block_bytes}")]
    TooLong {
        /// Bytes of the new object.
        object_bytes: u64,
        /// Bytes of its block.
        block_bytes: u64,
    },
    /// Another writer has the lock.
    #[error("writer {} has the lock of the object", .0.holder())]
    Locked(ObjectHeader),
}

/// An update of one object that a lookup has found. It can be used again for the next one, and then allocates nothing.
#[derive(Debug, Default)]
pub struct OneSidedUpdate<C> {
    image: Vec<u8>,
    at: u64,
    found: ObjectHeader,
    locked: ObjectHeader,
    check: PhantomData<C>,
}

impl<C: TornCheck> OneSidedUpdate<C> {
    /// An update, for any object.
    pub fn new() -> OneSidedUpdate<C> {
        OneSidedUpdate {
            image: Vec::new(),
            at: 0,
            found: ObjectHeader::default(),
            locked: ObjectHeader::default(),
            check: PhantomData,
        }
    }

    /// Begins with the object that a lookup of `key` has found: its first word and location. `holder` is our number
    /// among the writers of the table.
    ///
    /// # Errors
    /// If only the owner can do it, or another writer has the lock.
    pub fn start(
        &mut self,
        root: &RootCopy,
        (found, location): (ObjectHeader, Location),
        holder: u16,
        key: &[u8],
        value: &[u8],
    ) -> Result<UpdateStep<'_>, UpdateRefusal> {
        let (object_bytes, block_bytes) =
            (C::object_bytes(key.len() as u64, value.len() as u64), location.class().bytes());
        match holder {
            _ if !C::PEERS_MAY_WRITE => return Err(UpdateRefusal::OwnerOnly),
            0 | u16::MAX => return Err(UpdateRefusal::NoHolder(holder)),
            _ if object_bytes > block_bytes => return Err(UpdateRefusal::TooLong { object_bytes, block_bytes }),
            _ if found.version() == u32::MAX => return Err(UpdateRefusal::LastVersion),
            _ if found.holder() != 0 || found.state() != ObjectState::Live => return Err(UpdateRefusal::Locked(found)),
            _ => {}
        }
        (self.at, self.found, self.locked) = (location.offset(), found, found.held_by(holder));
        C::encode(Seal::new(root.salt, self.at), found.next(), key, value, &mut self.image);
        Ok(UpdateStep::CompareSwap { at: self.at, compare: found.word(), swap: self.locked.word() })
    }

    /// All bytes of the new object. A peer whose writes must survive it WRITEs them to a block of its own before it takes
    /// the lock ([`PeerTable::lend_copy`](crate::PeerTable::lend_copy)).
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// Takes the word that the compare-and-swap found.
    pub fn swapped(&self, before: u64) -> UpdateStep<'_> {
        if before != self.found.word() {
            return UpdateStep::Conflict(ObjectHeader::from_word(before));
        }
        let body = self.image.get(8..).unwrap_or_default();
        UpdateStep::Write { at: self.at + 8, body, header_at: self.at, header: self.found.next() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, Crc64, Found, KeyLookup, LineVersions, LocalReads, OwnerError, OwnerOptions, PlainMemory};
    use crate::{TableOwner, WordMemory};

    /// Carries a step out in plain memory.
    fn compare_swap(memory: &PlainMemory, step: UpdateStep<'_>) -> u64 {
        let UpdateStep::CompareSwap { at, compare, swap } = step else { panic!("{step:?}") };
        memory.compare_swap(at, compare, swap)
    }

    #[test]
    fn a_peer_updates_while_the_owner_waits_and_a_dead_peer_is_broken() {
        let memory = PlainMemory::new(1 << 20);
        let mut owner = TableOwner::<_, Cluster, Crc64>::create(&memory, OwnerOptions::default()).unwrap();
        let header = owner.put(b"key", b"one").unwrap().header();
        let mut reads = LocalReads::new(&memory);
        let mut lookup = KeyLookup::<Cluster, Crc64>::new(memory.len_bytes());
        let found = |reads: &mut LocalReads<&PlainMemory>, lookup: &mut KeyLookup<Cluster, Crc64>| {
            reads.run(lookup, b"key", None).unwrap()
        };
        assert_eq!(found(&mut reads, &mut lookup), Found::Value(b"one".to_vec()));
        let place = (header, reads.location().unwrap());

        let mut update = OneSidedUpdate::<Crc64>::new();
        let step = update.start(&owner.root(), place, 5, b"key", b"two!").unwrap();
        let before = compare_swap(&memory, step);
        // Locked: the old value is still whole, and the owner keeps its hands off.
        assert_eq!(found(&mut reads, &mut lookup), Found::Value(b"one".to_vec()));
        assert_eq!(owner.put(b"key", b"x"), Err(OwnerError::Locked(header.held_by(5))));
        assert_eq!(owner.delete(b"key"), Err(OwnerError::Locked(header.held_by(5))));
        let UpdateStep::Write { at, body, header_at, header: next } = update.swapped(before) else { panic!() };
        memory.copy_in(at, body);
        assert_eq!(reads.run(&mut lookup, b"key", None), Err(crate::LookupError::Busy));
        memory.store(header_at, next.word());
        assert_eq!(found(&mut reads, &mut lookup), Found::Value(b"two!".to_vec()));

        // A peer that knows the old version only, and one that dies with the lock.
        let stale = compare_swap(&memory, update.start(&owner.root(), place, 6, b"key", b"x").unwrap());
        assert_eq!(update.swapped(stale), UpdateStep::Conflict(next));
        compare_swap(&memory, update.start(&owner.root(), (next, place.1), 7, b"key", b"x").unwrap());
        let held = next.held_by(7);
        assert_eq!(owner.break_lock(b"key", next.held_by(8), b"y"), Err(OwnerError::OtherVersion(Some(held))));
        owner.break_lock(b"key", held, b"three").unwrap();
        assert_eq!(found(&mut reads, &mut lookup), Found::Value(b"three".to_vec()));
        assert!(owner.put(b"key", b"four").is_ok());
    }

    #[test]
    fn updates_that_only_the_owner_can_do_are_refused() {
        let memory = PlainMemory::new(1 << 20);
        let mut owner = TableOwner::<_, Cluster, Crc64>::create(&memory, OwnerOptions::default()).unwrap();
        let header = owner.put(b"key", b"one").unwrap().header();
        let root = owner.root();
        let location = Location::new(4096, crate::SizeClass::of(64).unwrap(), 1);
        let mut update = OneSidedUpdate::<Crc64>::new();
        let mut refusal = |header, holder, value: &[u8]| {
            update.start(&root, (header, location), holder, b"key", value).map(|_| ()).unwrap_err()
        };
        assert_eq!(refusal(header, 0, b""), UpdateRefusal::NoHolder(0));
        assert_eq!(refusal(header, u16::MAX, b""), UpdateRefusal::NoHolder(u16::MAX));
        assert_eq!(refusal(header, 1, &[0; 40]), UpdateRefusal::TooLong { object_bytes: 67, block_bytes: 64 });
        assert_eq!(refusal(header.held_by(2), 1, b""), UpdateRefusal::Locked(header.held_by(2)));
        let last = ObjectHeader::new(ObjectState::Live, header.incarnation(), u32::MAX);
        assert_eq!(refusal(last, 1, b""), UpdateRefusal::LastVersion);
        let refused =
            OneSidedUpdate::<LineVersions>::new().start(&root, (header, location), 1, b"key", b"").map(|_| ());
        assert_eq!(refused, Err(UpdateRefusal::OwnerOnly));
    }
}

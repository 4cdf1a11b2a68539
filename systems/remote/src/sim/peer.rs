//! A peer that updates an object alone, step by step between the owner's operations. Some die with the lock.

use fastrand::Rng;

use crate::layout::TableLayout;
use crate::local::{Found, LocalReads};
use crate::lookup::KeyLookup;
use crate::memory::WordMemory;
use crate::object::{ObjectHeader, TornCheck};
use crate::owner::TableOwner;
use crate::sim::timeline::NotedMemory;
use crate::update::{OneSidedUpdate, UpdateStep};

/// An update under way: the lock is taken.
pub(crate) struct PeerWrite {
    pub(crate) key: usize,
    pub(crate) value: Vec<u8>,
    /// The time when it took the lock.
    pub(crate) begin: usize,
    /// The first word that it left.
    pub(crate) held: ObjectHeader,
    at: u64,
    body: Vec<u8>,
    written: usize,
    header: ObjectHeader,
}

impl PeerWrite {
    /// Takes the lock of a key's object, if it is there and unlocked.
    pub(crate) fn start<L: TableLayout, C: TornCheck>(
        owner: &TableOwner<&NotedMemory, L, C>,
        memory: &NotedMemory,
        random: &mut Rng,
        (key, name): (usize, &[u8]),
    ) -> Option<PeerWrite> {
        let mut lookup = KeyLookup::<L, C>::new(memory.len_bytes());
        let mut reads = LocalReads::new(memory);
        let Ok(Found::Value(_)) = reads.run(&mut lookup, name, None) else { return None };
        let location = reads.location()?;
        let (at, begin) = (location.offset(), memory.now());
        let found = ObjectHeader::from_word(memory.load(at));
        let room = location.class().bytes().checked_sub(C::object_bytes(name.len() as u64, 4))?;
        let value: Vec<u8> = (0..4 + random.u64(..=room)).map(|_| random.u8(..)).collect();
        let (mut update, holder) = (OneSidedUpdate::<C>::new(), random.u16(1..u16::MAX));
        let step = update.start(&owner.root(), (found, location), holder, name, &value).ok()?;
        let UpdateStep::CompareSwap { compare, swap, .. } = step else { return None };
        let before = memory.compare_swap(at, compare, swap);
        let UpdateStep::Write { body, header, .. } = update.swapped(before) else { return None };
        let (body, held) = (body.to_vec(), found.held_by(holder));
        Some(PeerWrite { key, value, begin, held, at, body, written: 0, header })
    }

    /// The next step: some of the bytes, or the first word. Returns true at the end.
    pub(crate) fn advance(&mut self, memory: &NotedMemory, random: &mut Rng) -> bool {
        let left = self.body.len() - self.written;
        if left == 0 {
            memory.store(self.at, self.header.word());
            return true;
        }
        let part = if random.bool() { left } else { left.min(random.usize(1..=left.div_ceil(8)) * 8) };
        memory.copy_in(self.at + 8 + self.written as u64, &self.body[self.written..self.written + part]);
        self.written += part;
        false
    }
}

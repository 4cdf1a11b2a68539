//! Growth: another area with more slots, while readers go on in the old one.
//!
//! The owner fills the new area before it stores the root record that leads there. A reader in the old area finds the keys that
//! were there, because objects stay where they are. If it finds none, it compares the root record, and begins anew.

use crate::layout::TableLayout;
use crate::memory::WordMemory;
use crate::object::{Location, SizeClass, TornCheck};
use crate::owner::{OwnerError, TableOwner, allocate_area};
use crate::root::RootCopy;

/// The longest of the areas that growth tries is so many times the first.
const TRIES: u32 = 4;

impl<M: WordMemory, L: TableLayout, C: TornCheck> TableOwner<M, L, C> {
    /// Puts a location into a slot, and grows the table if there is none.
    pub(super) fn fill_slot(&mut self, tag: u64, location: Location) -> Result<(), OwnerError> {
        let (memory, mut sequence) = (&self.objects.memory, self.root.sequence);
        let mut moving = || {
            if sequence & 1 == 0 {
                sequence = next_move(sequence);
                memory.store(0, sequence);
            }
        };
        let inserted = L::insert(memory, &self.root.shape, &mut self.notes, tag, location, &mut moving);
        if sequence & 1 == 1 {
            sequence = next_move(sequence);
            memory.store(0, sequence);
        }
        self.root.sequence = sequence;
        match inserted {
            Ok(()) => Ok(()),
            Err(full) if !self.options.may_grow => Err(full.into()),
            Err(_) => self.grow(tag, location),
        }
    }

    /// Leads to another area, with the entries of the old one and one more.
    fn grow(&mut self, tag: u64, location: Location) -> Result<(), OwnerError> {
        let mut entries = vec![(tag, location)];
        for location in self.locations() {
            self.objects.copy_key(location)?;
            entries.push((L::tag(self.root.salt, &self.objects.scratch), location));
        }
        let mut keys = entries.len() as u64 * 2;
        for _ in 0..TRIES {
            let (shape, class) = allocate_area::<M, L>(&self.objects.memory, &mut self.objects.blocks, keys)?;
            let mut notes = L::Notes::default();
            let mut put = |(tag, location): &(u64, Location)| {
                L::insert(&self.objects.memory, &shape, &mut notes, *tag, *location, &mut || ())
            };
            if entries.iter().try_for_each(&mut put).is_ok() {
                self.publish(RootCopy { sequence: next_epoch(self.root.sequence), shape, salt: self.root.salt }, class);
                self.notes = notes;
                return Ok(());
            }
            self.objects.blocks.free(shape.area, class);
            keys *= 2;
        }
        Err(OwnerError::Full(crate::layout::TableFull))
    }

    fn publish(&mut self, root: RootCopy, class: SizeClass) {
        root.store(&self.objects.memory, 0, L::CODE, C::CODE);
        self.objects.blocks.free(self.root.shape.area, self.area_class);
        (self.root, self.area_class) = (root, class);
    }
}

/// The sequence with one more move: the epoch stays.
fn next_move(sequence: u64) -> u64 {
    sequence & !0xffff_ffff | sequence.wrapping_add(1) & 0xffff_ffff
}

/// The sequence of the next area.
fn next_epoch(sequence: u64) -> u64 {
    (sequence >> 32).wrapping_add(1) << 32
}

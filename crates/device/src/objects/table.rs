//! From queue pair numbers to queue pairs.
//!
//! The low 16 bits of a QPN index a table of 65,536 places, made in chunks as they are
//! needed. Each place has a lock of its own, so that looking one queue pair up never waits
//! for another. Numbers are handed out in a circle from a random start: a number that was
//! given back comes again as late as possible, so that packets that are still on their way
//! to the old queue pair do not reach a new one.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use wire::Qpn;

/// Numbers within a slot.
const CAPACITY: u32 = 1 << 16;
/// Of these, those that queue pairs may have: all but 0 and 1.
pub(crate) const NUMBERS: u32 = CAPACITY - 2;
const CHUNK: usize = 256;

type Place<T> = RwLock<Option<Arc<T>>>;
type Chunk<T> = Box<[Place<T>]>;

/// A table of `T` by QPN index.
pub(crate) struct Table<T> {
    slot: u8,
    chunks: Box<[OnceLock<Chunk<T>>]>,
    /// The index to try next, under the lock of whoever takes or gives back one.
    next: Mutex<u16>,
    len: AtomicU32,
}

impl<T> Table<T> {
    /// An empty table whose numbers have this slot, the first index being `start`.
    pub(crate) fn new(slot: u8, start: u16) -> Table<T> {
        Table {
            slot,
            chunks: (0..CAPACITY as usize / CHUNK).map(|_| OnceLock::new()).collect(),
            next: Mutex::new(start),
            len: AtomicU32::new(0),
        }
    }

    /// Enters what `make` makes for the number it is given.
    ///
    /// # Errors
    /// `make`, if all numbers are taken.
    pub(crate) fn insert<F: FnOnce(Qpn) -> Arc<T>>(&self, make: F) -> Result<Arc<T>, F> {
        let mut next = self.next.lock();
        let free = if self.len() < NUMBERS { self.free_from(*next) } else { None };
        let Some(index) = free else { return Err(make) };
        let entry = make(Qpn::from_parts(self.slot, index));
        *self.place(index).write() = Some(entry.clone());
        *next = index.wrapping_add(1);
        self.len.fetch_add(1, Relaxed);
        Ok(entry)
    }

    /// The entry with this number; the slot is the caller's to check.
    #[inline]
    pub(crate) fn get(&self, index: u16) -> Option<Arc<T>> {
        let chunk = self.chunks[usize::from(index) / CHUNK].get()?;
        chunk[usize::from(index) % CHUNK].read().clone()
    }

    /// Takes an entry out.
    pub(crate) fn remove(&self, index: u16) -> Option<Arc<T>> {
        let entry = self.place(index).write().take();
        self.len.fetch_sub(u32::from(entry.is_some()), Relaxed);
        entry
    }

    /// Entries that there are.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// Calls `visit` with every entry. Takes no lock during the call.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Arc<T>)) {
        for chunk in self.chunks.iter().filter_map(OnceLock::get) {
            for place in chunk {
                if let Some(entry) = place.read().clone() {
                    visit(&entry);
                }
            }
        }
    }

    /// The first index at or after `start`, round the circle, that may be taken.
    fn free_from(&self, start: u16) -> Option<u16> {
        (0..CAPACITY).map(|step| start.wrapping_add(step as u16)).find(|index| self.may_take(*index))
    }

    /// Numbers with a meaning of their own are left out: the whole of slot 255 ends in the
    /// number of multicast packets, and QP0 and QP1 have indices 0 and 1.
    fn may_take(&self, index: u16) -> bool {
        let qpn = Qpn::from_parts(self.slot, index);
        qpn != Qpn::MULTICAST && index > Qpn::GSI.index() && self.place(index).read().is_none()
    }

    fn place(&self, index: u16) -> &Place<T> {
        let chunk =
            self.chunks[usize::from(index) / CHUNK].get_or_init(|| (0..CHUNK).map(|_| RwLock::new(None)).collect());
        &chunk[usize::from(index) % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(table: &Table<Qpn>) -> Option<Qpn> {
        table.insert(Arc::new).ok().map(|entry| *entry)
    }

    #[test]
    fn numbers_carry_the_slot_and_go_round() {
        let table = Table::new(3, 0xffff);
        assert_eq!(insert(&table), Some(Qpn::from_parts(3, 0xffff)));
        assert_eq!(insert(&table), Some(Qpn::from_parts(3, 2)), "0 and 1 have a meaning");
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn the_multicast_number_is_nobodys() {
        let table = Table::new(255, 0xfffe);
        assert_eq!(insert(&table), Some(Qpn::new(0xff_fffe)));
        assert_eq!(insert(&table), Some(Qpn::new(0xff_0002)));
    }

    #[test]
    fn a_number_given_back_comes_again_last() {
        let table = Table::new(1, 100);
        let first = insert(&table).unwrap();
        assert_eq!(table.remove(first.index()).as_deref(), Some(&first));
        assert!(table.get(first.index()).is_none());
        let mut others = 0;
        while insert(&table).unwrap() != first {
            others += 1;
        }
        assert_eq!(others, NUMBERS - 1);
    }

    #[test]
    fn a_full_table_says_so() {
        let table = Table::new(1, 0);
        let count = std::iter::from_fn(|| insert(&table)).count();
        assert_eq!(count as u32, NUMBERS);
        assert!(table.remove(500).is_some());
        assert_eq!(insert(&table), Some(Qpn::from_parts(1, 500)));
        let mut seen = 0;
        table.for_each(|_| seen += 1);
        assert_eq!(seen, table.len());
    }
}

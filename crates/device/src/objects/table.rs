//! From queue pair numbers to queue pairs.
//!
//! The low 16 bits of a QPN index a table of 65,536 cells, made in chunks as they are needed. Each cell has a lock of
//! its own, so that a look-up of one queue pair never waits for another. Numbers are handed out in a circle from a
//! random start. So a freed number comes again as late as possible, and late packets to the old queue pair do not reach
//! a new one.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use wire::Qpn;

/// The number of indices within a slot.
const CAPACITY: u32 = 1 << 16;
/// The number of those that queue pairs may have: all but 0 and 1.
pub(crate) const NUMBERS: u32 = CAPACITY - 2;
const CHUNK: usize = 256;

type TableCell<T> = RwLock<Option<Arc<T>>>;
type TableChunk<T> = Box<[TableCell<T>]>;

/// A table of `T` by QPN index.
pub(crate) struct QpnTable<T> {
    slot: u8,
    chunks: Box<[OnceLock<TableChunk<T>>]>,
    /// The index to try next. Its lock also serializes insertions.
    next: Mutex<u16>,
    len: AtomicU32,
}

impl<T> QpnTable<T> {
    /// An empty table whose numbers have this slot, the first index being `start`.
    pub(crate) fn new(slot: u8, start: u16) -> QpnTable<T> {
        QpnTable {
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
        *self.cell(index).write() = Some(entry.clone());
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
        let entry = self.cell(index).write().take();
        self.len.fetch_sub(u32::from(entry.is_some()), Relaxed);
        entry
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> u32 {
        self.len.load(Relaxed)
    }

    /// Calls `visit` with every entry. Takes no lock during the call.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&Arc<T>)) {
        for chunk in self.chunks.iter().filter_map(OnceLock::get) {
            for cell in chunk {
                if let Some(entry) = cell.read().clone() {
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
        qpn != Qpn::MULTICAST && index > Qpn::GSI.index() && self.cell(index).read().is_none()
    }

    fn cell(&self, index: u16) -> &TableCell<T> {
        let chunk =
            self.chunks[usize::from(index) / CHUNK].get_or_init(|| (0..CHUNK).map(|_| RwLock::new(None)).collect());
        &chunk[usize::from(index) % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(table: &QpnTable<Qpn>) -> Option<Qpn> {
        table.insert(Arc::new).ok().map(|entry| *entry)
    }

    #[test]
    fn numbers_carry_the_slot_and_go_round() {
        let table = QpnTable::new(3, 0xffff);
        assert_eq!(insert(&table), Some(Qpn::from_parts(3, 0xffff)));
        assert_eq!(insert(&table), Some(Qpn::from_parts(3, 2)), "0 and 1 have a meaning");
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn no_queue_pair_has_the_multicast_number() {
        let table = QpnTable::new(255, 0xfffe);
        assert_eq!(insert(&table), Some(Qpn::new(0xff_fffe)));
        assert_eq!(insert(&table), Some(Qpn::new(0xff_0002)));
    }

    #[test]
    fn a_freed_number_comes_again_last() {
        let table = QpnTable::new(1, 100);
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
    fn a_full_table_refuses() {
        let table = QpnTable::new(1, 0);
        let count = std::iter::from_fn(|| insert(&table)).count();
        assert_eq!(count as u32, NUMBERS);
        assert!(table.remove(500).is_some());
        assert_eq!(insert(&table), Some(Qpn::from_parts(1, 500)));
        let mut seen = 0;
        table.for_each(|_| seen += 1);
        assert_eq!(seen, table.len());
    }
}

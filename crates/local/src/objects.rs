//! Memory objects of a peer, mapped here: found by number without a lock, and kept while in use.

use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::os::fd::{AsFd, OwnedFd};

use memory::{Gate, Pin, Span};
use parking_lot::Mutex;

use crate::mapping::Mapping;
use crate::sys;

/// Most objects of one peer that are mapped at once.
pub const MAX_OBJECTS: usize = 4096;
/// Places in the table, twice as many.
const PLACES: usize = 2 * MAX_OBJECTS;
/// How far from its first place an object may lie.
const REACH: usize = 64;
/// The number of a place that was never used, and of one that is free again.
const UNUSED: u64 = 0;
const FREE: u64 = u64::MAX;

/// Why an object was not mapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Refused {
    /// There are too many.
    Full,
    /// It is there already.
    Twice,
    /// It is no memfd that keeps its size, is shorter than said, or cannot be mapped.
    Unfit,
}

/// An object as the access path sees it.
#[derive(Clone, Copy, Debug)]
struct View {
    start: NonNull<u8>,
    len_bytes: usize,
    writable: bool,
}

// SAFETY: the address of shared memory, reached through spans only.
unsafe impl Send for View {}
// SAFETY: as for Send.
unsafe impl Sync for View {}

/// An object of the peer, mapped for as long as this is held.
pub struct Object<'a> {
    view: Pin<'a, View>,
}

impl Object<'_> {
    /// Its bytes. They may be written through it if [`is_writable`](Object::is_writable) says so.
    #[inline(always)]
    pub fn span(&self) -> Span<'_> {
        // SAFETY: the pin keeps the mapping; the memfd is sealed against shrinking; nobody makes
        // references to the bytes.
        unsafe { Span::new(self.view.start.as_ptr(), self.view.len_bytes) }
    }

    /// Whether it is mapped for writing.
    #[inline(always)]
    pub fn is_writable(&self) -> bool {
        self.view.writable
    }
}

struct Place {
    /// The object's number plus one.
    name: AtomicU64,
    gate: Gate<View>,
}

/// All mapped objects of a peer.
pub(crate) struct Objects {
    places: Box<[Place]>,
    /// The mappings, by place. Whoever holds this changes the table.
    mapped: Mutex<Mapped>,
}

#[derive(Default)]
struct Mapped {
    mappings: std::collections::HashMap<usize, Mapping>,
}

impl Objects {
    pub(crate) fn new() -> Objects {
        let nothing = View { start: NonNull::dangling(), len_bytes: 0, writable: false };
        let places = (0..PLACES).map(|_| Place { name: AtomicU64::new(UNUSED), gate: Gate::closed(nothing) });
        Objects { places: places.collect(), mapped: Mutex::default() }
    }

    /// An object, kept mapped for as long as it is held.
    #[inline]
    pub(crate) fn get(&self, object: u32) -> Option<Object<'_>> {
        let place = self.find(object)?;
        let view = self.places[place].gate.pin()?;
        // The place may have changed hands before it was pinned.
        (self.places[place].name.load(Acquire) == name(object)).then_some(Object { view })
    }

    /// Maps an object of at least `len_bytes`. The descriptor is closed in any case.
    pub(crate) fn insert(&self, object: u32, len_bytes: u64, fd: OwnedFd) -> Result<(), Refused> {
        let mut mapped = self.mapped.lock();
        if self.find(object).is_some() {
            return Err(Refused::Twice);
        }
        if mapped.mappings.len() >= MAX_OBJECTS {
            return Err(Refused::Full);
        }
        let place = self.vacant(object).ok_or(Refused::Full)?;
        let mapping = map(len_bytes, &fd).ok_or(Refused::Unfit)?;
        let start = NonNull::new(mapping.as_ptr()).ok_or(Refused::Unfit)?;
        let view = View { start, len_bytes: mapping.len_bytes(), writable: mapping.is_writable() };
        mapped.mappings.insert(place, mapping);
        self.places[place].gate.open(view);
        self.places[place].name.store(name(object), Release);
        Ok(())
    }

    /// Unmaps an object as soon as nobody uses it. Must not be called by who holds one.
    pub(crate) fn remove(&self, object: u32) -> bool {
        let mut mapped = self.mapped.lock();
        let Some(place) = self.find(object) else { return false };
        self.places[place].name.store(FREE, Relaxed);
        self.places[place].gate.close();
        mapped.mappings.remove(&place);
        true
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.mapped.lock().mappings.len()
    }

    #[inline(always)]
    fn find(&self, object: u32) -> Option<usize> {
        for place in reach(object) {
            match self.places[place].name.load(Acquire) {
                found if found == name(object) => return Some(place),
                UNUSED => return None,
                _ => {}
            }
        }
        None
    }

    fn vacant(&self, object: u32) -> Option<usize> {
        reach(object).find(|place| matches!(self.places[*place].name.load(Relaxed), UNUSED | FREE))
    }
}

/// The places where an object may lie, nearest first.
#[inline(always)]
fn reach(object: u32) -> impl Iterator<Item = usize> {
    (0..REACH).map(move |far| (object as usize).wrapping_add(far) % PLACES)
}

#[inline(always)]
fn name(object: u32) -> u64 {
    u64::from(object) + 1
}

/// Maps a file that cannot shrink; for reading only, if it cannot be written.
fn map(len_bytes: u64, fd: &OwnedFd) -> Option<Mapping> {
    let seals = sys::seals(fd.as_fd()).ok()?;
    let there = sys::file_bytes(fd.as_fd()).ok()?;
    if seals & libc::F_SEAL_SHRINK == 0 || len_bytes == 0 || there < len_bytes {
        return None;
    }
    let len_bytes = usize::try_from(there).ok()?;
    Mapping::new(fd.as_fd(), len_bytes, true).or_else(|_| Mapping::new(fd.as_fd(), len_bytes, false)).ok()
}

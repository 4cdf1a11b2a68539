//! Memory objects of a peer, mapped here: found by number, and mapped for as long as anybody holds them.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use memory::{QuickMutex, Span};

use crate::channel::Extent;
use crate::mapping::Mapping;
use crate::number_hash::NumberHash;
use crate::sys;

/// Most objects of one peer that are mapped at once.
pub const MAX_OBJECTS: usize = 4096;

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

/// An object of the peer, mapped for as long as this is held.
#[derive(Clone, Debug)]
pub struct Object {
    mapping: Arc<Mapping>,
}

impl Object {
    /// Its bytes. They may be written through it if [`is_writable`](Object::is_writable) says so.
    #[inline(always)]
    pub fn span(&self) -> Span<'_> {
        // SAFETY: mapped for as long as the object is held; the memfd is sealed against shrinking; nobody
        // makes references to the bytes.
        unsafe { Span::new(self.mapping.as_ptr(), self.mapping.len_bytes()) }
    }

    /// Whether it is mapped for writing.
    #[inline(always)]
    pub fn is_writable(&self) -> bool {
        self.mapping.is_writable()
    }
}

/// All objects that a peer has told of and not withdrawn, by number.
#[derive(Default)]
pub(crate) struct Objects {
    mapped: QuickMutex<HashMap<u32, Object, NumberHash>>,
}

impl Objects {
    #[inline]
    pub(crate) fn get(&self, object: u32) -> Option<Object> {
        self.mapped.lock().get(&object).cloned()
    }

    /// Maps an object, which is a part of a file. The descriptor is closed in any case. One thread at a time calls this.
    pub(crate) fn insert(&self, object: u32, extent: Extent, fd: OwnedFd) -> Result<(), Refused> {
        self.check_new(object)?;
        // Not under the lock, which is for what takes nanoseconds.
        let mapping = Arc::new(map(extent, &fd).ok_or(Refused::Unfit)?);
        self.mapped.lock().insert(object, Object { mapping });
        Ok(())
    }

    fn check_new(&self, object: u32) -> Result<(), Refused> {
        let mapped = self.mapped.lock();
        match mapped.contains_key(&object) {
            true => Err(Refused::Twice),
            false if mapped.len() >= MAX_OBJECTS => Err(Refused::Full),
            false => Ok(()),
        }
    }

    /// Forgets an object. Who holds it still keeps it mapped.
    pub(crate) fn remove(&self, object: u32) -> bool {
        let removed = self.mapped.lock().remove(&object);
        removed.is_some()
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.mapped.lock().len()
    }
}

/// Maps a part of a file that cannot shrink; for reading only, if it cannot be written.
fn map(extent: Extent, fd: &OwnedFd) -> Option<Mapping> {
    let seals = sys::seals(fd.as_fd()).ok()?;
    let there = sys::file_bytes(fd.as_fd()).ok()?;
    let end = extent.start.checked_add(extent.len_bytes)?;
    if seals & libc::F_SEAL_SHRINK == 0 || extent.len_bytes == 0 || there < end {
        return None;
    }
    let len_bytes = usize::try_from(extent.len_bytes).ok()?;
    let map = |writable| Mapping::of_part(fd.as_fd(), extent.start, len_bytes, writable);
    map(true).or_else(|_| map(false)).ok()
}

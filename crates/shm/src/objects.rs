//! Memory objects of a peer, found by number. Each stays mapped for as long as it is held.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use memory::{QuickMutex, Span};

use crate::channel::Extent;
use crate::mapping::SharedMapping;
use crate::number_hash::NumberHash;
use crate::sys;

/// The largest number of mapped objects of one peer.
pub const MAX_OBJECTS: usize = 4096;

/// The reason why an object was not mapped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NotMapped {
    /// There are too many objects.
    Full,
    /// The object is mapped already.
    Twice,
    /// The file is not a memfd that keeps its size, is shorter than claimed, or cannot be mapped.
    Unfit,
}

/// An object of the peer, mapped for as long as this is held.
#[derive(Clone, Debug)]
pub struct Object {
    mapping: Arc<SharedMapping>,
}

impl Object {
    /// The bytes of the object. They may be written only if [`is_writable`](Object::is_writable) is true.
    #[inline(always)]
    pub fn span(&self) -> Span<'_> {
        // SAFETY: mapped for as long as the object is held; the memfd is sealed against shrinking; no
        // references to the bytes exist.
        unsafe { Span::new(self.mapping.as_ptr(), self.mapping.len_bytes()) }
    }

    /// True if it is mapped for writing.
    #[inline(always)]
    pub fn is_writable(&self) -> bool {
        self.mapping.is_writable()
    }
}

/// All objects that the peer has offered and not withdrawn, by number.
#[derive(Default)]
pub(crate) struct MappedObjects {
    mapped: QuickMutex<HashMap<u32, Object, NumberHash>>,
}

impl MappedObjects {
    #[inline]
    pub(crate) fn get(&self, object: u32) -> Option<Object> {
        self.mapped.lock().get(&object).cloned()
    }

    /// Maps an object, which is a part of a file. The descriptor is closed in any case. Only one thread at a
    /// time may call this.
    pub(crate) fn insert(&self, object: u32, extent: Extent, fd: OwnedFd) -> Result<(), NotMapped> {
        self.check_new(object)?;
        // The mapping is made outside of the lock, which is held only for nanoseconds.
        let mapping = Arc::new(map(extent, &fd).ok_or(NotMapped::Unfit)?);
        self.mapped.lock().insert(object, Object { mapping });
        Ok(())
    }

    fn check_new(&self, object: u32) -> Result<(), NotMapped> {
        let mapped = self.mapped.lock();
        match mapped.contains_key(&object) {
            true => Err(NotMapped::Twice),
            false if mapped.len() >= MAX_OBJECTS => Err(NotMapped::Full),
            false => Ok(()),
        }
    }

    /// Removes an object. It stays mapped while it is held.
    pub(crate) fn remove(&self, object: u32) -> bool {
        let removed = self.mapped.lock().remove(&object);
        removed.is_some()
    }

    /// The number of objects.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.mapped.lock().len()
    }
}

/// Maps a part of a file that cannot shrink; only for reading, if it cannot be written.
fn map(extent: Extent, fd: &OwnedFd) -> Option<SharedMapping> {
    let seals = sys::seals(fd.as_fd()).ok()?;
    let there = sys::file_bytes(fd.as_fd()).ok()?;
    let end = extent.start.checked_add(extent.len_bytes)?;
    if seals & libc::F_SEAL_SHRINK == 0 || extent.len_bytes == 0 || there < end {
        return None;
    }
    let len_bytes = usize::try_from(extent.len_bytes).ok()?;
    let map = |writable| SharedMapping::of_part(fd.as_fd(), extent.start, len_bytes, writable);
    map(true).or_else(|_| map(false)).ok()
}

//! Memory of the program that the library owns from then on, or borrows for a while.

use std::any::Any;
use std::fmt;

/// Memory that can be given to the library. From then on only copies change its bytes. It is freed when the last
/// registration and the last buffer made of it are gone.
///
/// # Safety
/// The bytes must stay at one address, readable and writable, until the value is dropped, also when the value itself
/// is moved. Nothing but the value may reach them; its `Drop` may free them.
pub unsafe trait OwnedMemory: Any + Send + Sync {
    /// The first byte.
    fn as_mut_ptr(&mut self) -> *mut u8;

    /// The number of bytes, all initialised.
    fn len_bytes(&self) -> usize;
}

// SAFETY: a vector that nobody grows keeps its bytes in one place on the heap, alone.
unsafe impl OwnedMemory for Vec<u8> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        Vec::as_mut_ptr(self)
    }

    fn len_bytes(&self) -> usize {
        self.len()
    }
}

// SAFETY: a box keeps its bytes in one place on the heap, alone.
unsafe impl OwnedMemory for Box<[u8]> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        <[u8]>::as_mut_ptr(self)
    }

    fn len_bytes(&self) -> usize {
        self.len()
    }
}

// SAFETY: the borrow lasts for ever and is exclusive.
unsafe impl OwnedMemory for &'static mut [u8] {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        <[u8]>::as_mut_ptr(self)
    }

    fn len_bytes(&self) -> usize {
        self.len()
    }
}

#[cfg(feature = "bytes")]
// SAFETY: the bytes lie on the heap; the value is their only handle, as others hold other parts.
unsafe impl OwnedMemory for bytes::BytesMut {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        <[u8]>::as_mut_ptr(self)
    }

    fn len_bytes(&self) -> usize {
        self.len()
    }
}

#[cfg(feature = "memmap2")]
// SAFETY: the mapping stays until the value is dropped. By the unsafe call that made it, the program has promised that
// others change the file only as the mapping's users can bear.
unsafe impl OwnedMemory for memmap2::MmapMut {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        <[u8]>::as_mut_ptr(self)
    }

    fn len_bytes(&self) -> usize {
        self.len()
    }
}

/// Memory that the program keeps and the library uses, by an unsafe promise.
#[derive(Debug)]
pub struct BorrowedMemory {
    start: *mut u8,
    len_bytes: usize,
}

impl BorrowedMemory {
    /// The `len_bytes` bytes at `start`.
    ///
    /// # Safety
    /// They must stay mapped, readable and writable until everything that was made of the value is gone: buffers,
    /// memory regions with their slices and windows, and requests that use them. Until then no reference to them
    /// may be used.
    pub unsafe fn new(start: *mut u8, len_bytes: usize) -> BorrowedMemory {
        BorrowedMemory { start, len_bytes }
    }
}

// SAFETY: an address, used only as the contract of `new` allows, by any thread.
unsafe impl Send for BorrowedMemory {}
// SAFETY: the methods only read the fields.
unsafe impl Sync for BorrowedMemory {}

// SAFETY: the caller of `new` has promised it.
unsafe impl OwnedMemory for BorrowedMemory {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start
    }

    fn len_bytes(&self) -> usize {
        self.len_bytes
    }
}

/// The owner of a region's memory.
pub(crate) struct RegionOwner(pub(crate) Box<dyn OwnedMemory>);

impl RegionOwner {
    pub(crate) fn is<M: OwnedMemory>(&self) -> bool {
        let owner: &dyn Any = &*self.0;
        owner.is::<M>()
    }

    /// The value that the program gave, if it is of this type.
    pub(crate) fn into_value<M: OwnedMemory>(self) -> Option<M> {
        let owner: Box<dyn Any> = self.0;
        owner.downcast().ok().map(|value| *value)
    }
}

impl fmt::Debug for RegionOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionOwner({} bytes)", self.0.len_bytes())
    }
}

//! The rights of a live key: its memory, its users, and their access.

use transport::{Access, Accessor, LKey, MemoryError, PdId};
use wire::RKey;

use crate::far::Backing;
use crate::shared::ObjectPlace;
use crate::span::Span;

/// No restriction to one queue pair.
pub(crate) const ANY_QP: u32 = u32::MAX;

/// The contents of a table entry: a memory region, or a bound memory window. The fields that every access
/// needs come first, in one cache line with the gate's state.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Grant {
    /// The region's local key; zero, which is not a key, for a window.
    pub(crate) lkey: LKey,
    /// The remote key.
    pub(crate) rkey: RKey,
    /// The first byte.
    pub(crate) start: *mut u8,
    /// The number of the first byte in peers' requests and in lists.
    pub(crate) base: u64,
    /// The length in bytes; zero if they are not mapped for good.
    pub(crate) len_bytes: u64,
    /// The length in bytes if they are not mapped for good; zero otherwise.
    pub(crate) far_bytes: u64,
    /// The protection domain of the queue pairs that may use it.
    pub(crate) pd: PdId,
    /// The operations that are allowed.
    pub(crate) access: Access,
    /// For a type 2 window the only queue pair that may use it; otherwise [`ANY_QP`].
    pub(crate) only: u32,
    /// The kind of memory.
    pub(crate) backing: Backing,
    /// The object and offset by which peers on this host can map the bytes.
    pub(crate) place: Option<ObjectPlace>,
}

const _: () = assert!(core::mem::offset_of!(Grant, place) <= 56);

// SAFETY: the pointer is used only through `Span`, under the contract of `Registry::register` that the owner
// of the memory has accepted.
unsafe impl Send for Grant {}
// SAFETY: the argument for Send holds for shared use: the fields are plain values, and the pointer is used
// only through `Span`.
unsafe impl Sync for Grant {}

impl Grant {
    /// An empty grant, for a table entry that was never used.
    pub(crate) const NONE: Grant = Grant {
        lkey: LKey(0),
        rkey: RKey(0),
        start: core::ptr::null_mut(),
        base: 0,
        len_bytes: 0,
        far_bytes: 0,
        pd: PdId(0),
        access: Access::empty(),
        only: ANY_QP,
        backing: Backing::Mapped,
        place: None,
    };

    /// The same grant with `len_bytes`, in the field for its kind of memory.
    pub(crate) fn sized(self, len_bytes: u64) -> Grant {
        match self.backing {
            Backing::Mapped => Grant { len_bytes, far_bytes: 0, ..self },
            Backing::OnDemand | Backing::Null => Grant { len_bytes: 0, far_bytes: len_bytes, ..self },
        }
    }

    /// The length in bytes, for every kind of memory.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.len_bytes | self.far_bytes
    }

    /// True if an address of this process belongs to bytes that stay mapped. Never true for on-demand memory,
    /// which may be the whole address space.
    pub(crate) fn maps(&self, address: usize) -> bool {
        let offset = address.checked_sub(self.start.addr());
        offset.is_some_and(|offset| (offset as u64) < self.len_bytes)
    }

    /// True if the grant is a window's.
    pub(crate) fn is_window(&self) -> bool {
        self.lkey == LKey(0)
    }

    /// Checks that the owner's queue pair may use it.
    #[inline(always)]
    pub(crate) fn admit_local(&self, pd: PdId, write: bool) -> Result<(), MemoryError> {
        if self.pd != pd {
            return Err(MemoryError::WrongDomain);
        }
        if write && !self.access.contains(Access::LOCAL_WRITE) {
            return Err(MemoryError::NoPermission);
        }
        Ok(())
    }

    /// Checks that a peer may do `access` through the queue pair `who` (IB specification 10.6.7: a type 2
    /// window serves the queue pair that bound it and no other).
    #[inline(always)]
    pub(crate) fn admit_remote(&self, who: Accessor, access: Access) -> Result<(), MemoryError> {
        if self.pd != who.pd || (self.only != ANY_QP && self.only != who.qpn.get()) {
            return Err(MemoryError::WrongDomain);
        }
        if !self.access.contains(access) {
            return Err(MemoryError::NoPermission);
        }
        Ok(())
    }

    /// The offset of `addr` in the memory, if the whole range is inside.
    #[inline(always)]
    pub(crate) fn offset(&self, addr: u64, len_bytes: u64) -> Result<u64, MemoryError> {
        match addr.checked_sub(self.base) {
            Some(offset) if offset <= self.len_bytes && len_bytes <= self.len_bytes - offset => Ok(offset),
            _ => Err(MemoryError::OutOfBounds),
        }
    }

    /// The first byte of a range of any kind of memory, if it is all inside.
    #[inline(always)]
    pub(crate) fn first_byte(&self, addr: u64, len_bytes: u64) -> Result<*mut u8, MemoryError> {
        match self.offset(addr, len_bytes) {
            Ok(offset) => Ok(self.start.wrapping_add(offset as usize)),
            Err(outside) => self.place(addr, len_bytes, outside),
        }
    }

    /// Copies a range out.
    ///
    /// # Safety
    /// The grant must be pinned, and its rights checked.
    #[inline(always)]
    pub(crate) unsafe fn read(&self, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        // SAFETY: this function's contract: the grant is pinned and its rights are checked.
        match unsafe { self.span(addr, out.len()) } {
            Ok(span) => {
                span.read(out);
                Ok(())
            }
            Err(outside) => self.read_far(addr, out, outside),
        }
    }

    /// Copies `data` in.
    ///
    /// # Safety
    /// The grant must be pinned, and its rights checked.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        // SAFETY: this function's contract: the grant is pinned and its rights are checked.
        match unsafe { self.span(addr, data.len()) } {
            Ok(span) => {
                span.write(data);
                Ok(())
            }
            Err(outside) => self.write_far(addr, data, outside),
        }
    }

    /// Copies a range into a span.
    ///
    /// # Safety
    /// The grant must be pinned, and its rights checked.
    #[inline(always)]
    pub(crate) unsafe fn read_to(&self, addr: u64, to: Span<'_>) -> Result<(), MemoryError> {
        // SAFETY: this function's contract: the grant is pinned and its rights are checked.
        match unsafe { self.span(addr, to.len_bytes()) } {
            Ok(span) => {
                to.copy_from(span);
                Ok(())
            }
            Err(outside) => self.read_far_to(addr, to, outside),
        }
    }

    /// Copies a span into a range.
    ///
    /// # Safety
    /// The grant must be pinned, and its rights checked.
    #[inline(always)]
    pub(crate) unsafe fn write_from(&self, addr: u64, from: Span<'_>) -> Result<(), MemoryError> {
        // SAFETY: this function's contract: the grant is pinned and its rights are checked.
        match unsafe { self.span(addr, from.len_bytes()) } {
            Ok(span) => {
                span.copy_from(from);
                Ok(())
            }
            Err(outside) => self.write_far_from(addr, from, outside),
        }
    }

    /// Eight bytes, for an atomic.
    ///
    /// # Safety
    /// The grant must be pinned for all of `'a`, and its rights checked.
    #[inline(always)]
    pub(crate) unsafe fn word<'a>(&self, addr: u64) -> Result<Span<'a>, MemoryError> {
        // SAFETY: this function's contract: the grant is pinned for `'a` and its rights are checked.
        unsafe { self.span(addr, 8) }.or_else(|outside| self.word_far(addr, outside))
    }

    /// The memory of a range that is all inside.
    ///
    /// # Safety
    /// The grant must be pinned for all of `'a`, and its rights checked.
    #[inline(always)]
    pub(crate) unsafe fn span<'a>(&self, addr: u64, len_bytes: usize) -> Result<Span<'a>, MemoryError> {
        let offset = self.offset(addr, len_bytes as u64)?;
        // SAFETY: the range lies inside memory that the owner has promised to keep mapped until the grant is
        // withdrawn; the pin delays that. `check_spec` has limited lengths to `isize`.
        Ok(unsafe { Span::new(self.start.add(offset as usize), len_bytes) })
    }
}

//! Copies between the owner's scatter/gather lists and memory that is not a slice: a peer's memory, or a
//! ring.

use transport::{Access, Accessor, LKey, MemoryError, PdId, Sge};
use wire::RKey;

use super::walk;
use crate::gate::Pin;
use crate::grant::Grant;
use crate::registry::Registry;
use crate::span::Span;

/// Memory that a key has opened. Deregistration waits until this value is dropped.
pub struct OpenedMemory<'a> {
    start: *mut u8,
    len_bytes: usize,
    _grant: Pin<'a, Grant>,
}

impl OpenedMemory<'_> {
    /// The bytes, to be used only as the key's rights allow.
    #[inline(always)]
    pub fn span(&self) -> Span<'_> {
        // SAFETY: the memory stays mapped while the grant is pinned, and `self` holds the pin.
        unsafe { Span::new(self.start, self.len_bytes) }
    }
}

impl Registry {
    /// Opens the range of a remote key for a queue pair's peer in this same process. `None` if the bytes are
    /// not mapped for good: then only the copying calls reach them.
    ///
    /// # Errors
    /// As [`Memory::check_remote`](transport::Memory::check_remote).
    #[inline]
    pub fn open_remote(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        len_bytes: usize,
        access: Access,
    ) -> Result<Option<OpenedMemory<'_>>, MemoryError> {
        opened(self.admit_remote(who, rkey, access)?, addr, len_bytes)
    }

    /// Opens a range of a local key for reading, in any protection domain. `None` as for
    /// [`open_remote`](Registry::open_remote).
    ///
    /// # Errors
    /// As [`Memory::gather`](transport::Memory::gather), except that the domain is not checked.
    pub fn open_local(&self, lkey: LKey, addr: u64, len_bytes: usize) -> Result<Option<OpenedMemory<'_>>, MemoryError> {
        opened(self.pin_local(lkey)?, addr, len_bytes)
    }

    /// Like [`Memory::gather`](transport::Memory::gather), into a span: one copy, with the order of
    /// [`Span::write`] for each entry of the list.
    ///
    /// # Errors
    /// As [`Memory::gather`](transport::Memory::gather).
    #[inline(always)] // One call on the path of every one-sided request.
    pub fn gather_to(&self, pd: PdId, sgl: &[Sge], offset: u64, to: Span<'_>) -> Result<(), MemoryError> {
        walk(sgl, offset, to.len_bytes(), |piece, at, len| {
            let grant = self.admit_local(pd, piece, false)?;
            let to = to.part(at, len).ok_or(MemoryError::OutOfBounds)?;
            // SAFETY: the grant stays pinned until after the copy, and `admit_local` has checked its rights.
            unsafe { grant.read_to(piece.addr, to) }
        })
    }

    /// Like [`Memory::scatter`](transport::Memory::scatter), from a span: one copy, with the order of
    /// [`Span::write`] for each entry of the list.
    ///
    /// # Errors
    /// As [`Memory::scatter`](transport::Memory::scatter).
    #[inline(always)] // One call on the path of every one-sided request.
    pub fn scatter_from(&self, pd: PdId, sgl: &[Sge], offset: u64, from: Span<'_>) -> Result<(), MemoryError> {
        walk(sgl, offset, from.len_bytes(), |piece, at, len| {
            let grant = self.admit_local(pd, piece, true)?;
            let from = from.part(at, len).ok_or(MemoryError::OutOfBounds)?;
            // SAFETY: the grant stays pinned until after the copy, and `admit_local` has checked its rights.
            unsafe { grant.write_from(piece.addr, from) }
        })
    }
}

#[inline(always)]
fn opened(grant: Pin<'_, Grant>, addr: u64, len_bytes: usize) -> Result<Option<OpenedMemory<'_>>, MemoryError> {
    match grant.offset(addr, len_bytes as u64) {
        Ok(offset) => {
            let start = grant.start.wrapping_add(offset as usize);
            Ok(Some(OpenedMemory { start, len_bytes, _grant: grant }))
        }
        Err(outside) => grant.place(addr, len_bytes as u64, outside).map(|_| None),
    }
}

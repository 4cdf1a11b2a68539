//! Copies between the owner's lists and memory that is not in a slice: a peer's, or a ring.

use transport::{Access, Accessor, LKey, MemoryError, PdId, Sge};
use wire::RKey;

use super::walk;
use crate::gate::Pin;
use crate::grant::Grant;
use crate::registry::Registry;
use crate::span::Span;

/// Memory that a key has opened. It stays open until this is dropped: deregistration waits.
pub struct Opened<'a> {
    start: *mut u8,
    len_bytes: usize,
    _grant: Pin<'a, Grant>,
}

impl Opened<'_> {
    /// Its bytes, to be used as the key allows.
    #[inline(always)]
    pub fn span(&self) -> Span<'_> {
        // SAFETY: mapped while the grant is pinned, which is until `self` goes.
        unsafe { Span::new(self.start, self.len_bytes) }
    }
}

impl Registry {
    /// What a remote key opens to one of our own queue pairs' peers that is in this process, too. Nothing if these bytes
    /// are not mapped for good: then only the calls that copy reach them.
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
    ) -> Result<Option<Opened<'_>>, MemoryError> {
        opened(self.admit_remote(who, rkey, access)?, addr, len_bytes)
    }

    /// What a local key opens for reading, whosever it is. As [`open_remote`](Registry::open_remote).
    ///
    /// # Errors
    /// As [`Memory::gather`](transport::Memory::gather), but for the domain.
    pub fn open_local(&self, lkey: LKey, addr: u64, len_bytes: usize) -> Result<Option<Opened<'_>>, MemoryError> {
        opened(self.pin_local(lkey)?, addr, len_bytes)
    }

    /// As [`Memory::gather`](transport::Memory::gather), into a span: one copy, with the order of
    /// [`Span::write`] for each entry of the list.
    ///
    /// # Errors
    /// As there.
    #[inline(always)] // One call on the way of every one-sided request.
    pub fn gather_to(&self, pd: PdId, sgl: &[Sge], offset: u64, to: Span<'_>) -> Result<(), MemoryError> {
        walk(sgl, offset, to.len_bytes(), |piece, at, len| {
            let grant = self.admit_local(pd, piece, false)?;
            let to = to.part(at, len).ok_or(MemoryError::OutOfBounds)?;
            // SAFETY: pinned until after the copy, rights checked.
            unsafe { grant.read_to(piece.addr, to) }
        })
    }

    /// As [`Memory::scatter`](transport::Memory::scatter), from a span: one copy, with the order of
    /// [`Span::write`] for each entry of the list.
    ///
    /// # Errors
    /// As there.
    #[inline(always)] // One call on the way of every one-sided request.
    pub fn scatter_from(&self, pd: PdId, sgl: &[Sge], offset: u64, from: Span<'_>) -> Result<(), MemoryError> {
        walk(sgl, offset, from.len_bytes(), |piece, at, len| {
            let grant = self.admit_local(pd, piece, true)?;
            let from = from.part(at, len).ok_or(MemoryError::OutOfBounds)?;
            // SAFETY: pinned until after the copy, rights checked.
            unsafe { grant.write_from(piece.addr, from) }
        })
    }
}

#[inline(always)]
fn opened(grant: Pin<'_, Grant>, addr: u64, len_bytes: usize) -> Result<Option<Opened<'_>>, MemoryError> {
    match grant.offset(addr, len_bytes as u64) {
        Ok(offset) => {
            let start = grant.start.wrapping_add(offset as usize);
            Ok(Some(Opened { start, len_bytes, _grant: grant }))
        }
        Err(outside) => grant.place(addr, len_bytes as u64, outside).map(|_| None),
    }
}

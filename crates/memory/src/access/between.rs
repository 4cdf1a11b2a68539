//! Copies between the owner's lists and memory that is not in a slice: a peer's, or a ring.

use transport::{MemoryError, PdId, Sge};

use super::walk;
use crate::registry::Registry;
use crate::span::Span;

impl Registry {
    /// As [`Memory::gather`](transport::Memory::gather), into a span: one copy, with the order of
    /// [`Span::write`] for each entry of the list.
    ///
    /// # Errors
    /// As there.
    #[inline]
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
    #[inline]
    pub fn scatter_from(&self, pd: PdId, sgl: &[Sge], offset: u64, from: Span<'_>) -> Result<(), MemoryError> {
        walk(sgl, offset, from.len_bytes(), |piece, at, len| {
            let grant = self.admit_local(pd, piece, true)?;
            let from = from.part(at, len).ok_or(MemoryError::OutOfBounds)?;
            // SAFETY: pinned until after the copy, rights checked.
            unsafe { grant.write_from(piece.addr, from) }
        })
    }
}

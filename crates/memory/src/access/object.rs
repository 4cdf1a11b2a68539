//! READs of objects at one moment.

use transport::{Access, Accessor, MemoryError, PdId, Sge};
use wire::RKey;

use crate::object::{OBJECT_WORD_BYTES, ObjectCopy, copy_object};
use crate::registry::Registry;
use crate::span::Span;

impl Registry {
    /// See [`Memory::remote_read_object`](transport::Memory::remote_read_object). On-demand memory has no such READ: the
    /// kernel copies it, in an order that nothing promises.
    pub(super) fn read_object(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        lock_mask: u64,
        out: &mut [u8],
    ) -> Result<usize, MemoryError> {
        let opened = self.open_remote(who, rkey, addr, out.len(), Access::REMOTE_READ)?;
        let opened = opened.ok_or(MemoryError::Unmapped)?;
        read_object(opened.span(), addr, lock_mask, out)
    }

    /// Copies an object at one moment into a list: `addr` is its address as the peer numbers it. Returns the bytes of the
    /// result, as [`Memory::remote_read_object`](transport::Memory::remote_read_object) does; others may be torn.
    ///
    /// # Errors
    /// [`MemoryError::Misaligned`] if the object is not; else those of [`Memory::scatter`](transport::Memory::scatter).
    pub fn scatter_object(
        &self,
        pd: PdId,
        sgl: &[Sge],
        object: Span<'_>,
        addr: u64,
        lock_mask: u64,
    ) -> Result<u32, ObjectError> {
        let word = word_of(object, addr).map_err(ObjectError::Object)?;
        let copied =
            copy_object(word, lock_mask, || self.scatter_from(pd, sgl, 0, object)).map_err(ObjectError::List)?;
        let (first, len_bytes) = match copied {
            ObjectCopy::Whole(first) => (first, object.len_bytes()),
            ObjectCopy::Busy(first) => (first, OBJECT_WORD_BYTES),
        };
        // The copy of the word may be older or newer than the rest: a lock that was taken and given back in vain.
        transport::Memory::scatter(self, pd, sgl, 0, &first.to_ne_bytes()).map_err(ObjectError::List)?;
        Ok(len_bytes as u32)
    }
}

/// Copies an object at one moment: `addr` is its address as the peer numbers it. Returns the bytes of the result, as
/// [`Memory::remote_read_object`](transport::Memory::remote_read_object) does; others may be torn.
///
/// # Errors
/// [`MemoryError::Misaligned`] if the object is not aligned.
///
/// # Panics
/// If the lengths differ.
pub fn read_object(object: Span<'_>, addr: u64, lock_mask: u64, out: &mut [u8]) -> Result<usize, MemoryError> {
    let copied = copy_object(word_of(object, addr)?, lock_mask, || {
        object.read(out);
        Ok(())
    })?;
    let (first, len_bytes) = match copied {
        ObjectCopy::Whole(first) => (first, out.len()),
        ObjectCopy::Busy(first) => (first, OBJECT_WORD_BYTES),
    };
    put_word(out, first);
    Ok(len_bytes)
}

/// The reason why an object was not copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectError {
    /// The object's place.
    Object(MemoryError),
    /// The list that it was to be copied to.
    List(MemoryError),
}

/// The first word of an object, which must be aligned, and so must the address by which the peer names it.
fn word_of(object: Span<'_>, addr: u64) -> Result<Span<'_>, MemoryError> {
    let word = object.part(0, OBJECT_WORD_BYTES).filter(|word| word.is_word() && addr.is_multiple_of(8));
    word.ok_or(MemoryError::Misaligned)
}

fn put_word(out: &mut [u8], word: u64) {
    out[..OBJECT_WORD_BYTES].copy_from_slice(&word.to_ne_bytes());
}

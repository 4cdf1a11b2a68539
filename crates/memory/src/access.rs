//! The access path: the checks and copies of a queue pair's access to registered memory.
//!
//! Each access pins one table entry, compares the key, checks domain, rights and range, copies, and unpins.
//! No access relies on the checks of an earlier one.

mod between;
mod calls;
mod object;

pub use between::OpenedMemory;
pub use object::{ObjectError, read_object};

use core::sync::atomic::{Ordering::SeqCst, fence};

use transport::{Access, Accessor, AtomicOp, BindMw, Memory, MemoryError, PdId, RemoteCallError, ReplyBytes, Sge};
use wire::RKey;

use crate::gate::Pin;
use crate::grant::Grant;
use crate::registry::Registry;
use crate::windows::Unbound;

impl Memory for Registry {
    #[inline]
    fn gather(&self, pd: PdId, sgl: &[Sge], offset: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        walk(sgl, offset, out.len(), |piece, at, len| {
            let grant = self.admit_local(pd, piece, false)?;
            // SAFETY: the grant stays pinned until after the copy, and `admit_local` has checked its rights.
            unsafe { grant.read(piece.addr, &mut out[at..at + len]) }
        })
    }

    #[inline]
    fn scatter(&self, pd: PdId, sgl: &[Sge], offset: u64, data: &[u8]) -> Result<(), MemoryError> {
        walk(sgl, offset, data.len(), |piece, at, len| {
            let grant = self.admit_local(pd, piece, true)?;
            // SAFETY: the grant stays pinned until after the copy, and `admit_local` has checked its rights.
            unsafe { grant.write(piece.addr, &data[at..at + len]) }
        })
    }

    fn check_local(&self, pd: PdId, sgl: &[Sge], write: bool) -> Result<(), MemoryError> {
        for sge in sgl.iter().filter(|sge| sge.len_bytes > 0) {
            let grant = self.admit_local(pd, sge, write)?;
            grant.first_byte(sge.addr, u64::from(sge.len_bytes))?;
        }
        Ok(())
    }

    fn check_remote(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        len_bytes: u64,
        access: Access,
    ) -> Result<(), MemoryError> {
        if len_bytes == 0 {
            return Ok(());
        }
        let grant = self.admit_remote(who, rkey, access)?;
        grant.first_byte(addr, len_bytes)?;
        Ok(())
    }

    #[inline]
    fn remote_write(&self, who: Accessor, rkey: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        if data.is_empty() {
            return Ok(());
        }
        let grant = self.admit_remote(who, rkey, Access::REMOTE_WRITE)?;
        // SAFETY: the grant stays pinned until after the copy, and `admit_remote` has checked its rights.
        unsafe { grant.write(addr, data) }
    }

    #[inline]
    fn remote_read(&self, who: Accessor, rkey: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        if out.is_empty() {
            return Ok(());
        }
        let grant = self.admit_remote(who, rkey, Access::REMOTE_READ)?;
        // SAFETY: the grant stays pinned until after the copy, and `admit_remote` has checked its rights.
        unsafe { grant.read(addr, out) }
    }

    fn remote_read_object(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        lock_mask: u64,
        out: &mut [u8],
    ) -> Result<usize, MemoryError> {
        self.read_object(who, rkey, addr, lock_mask, out)
    }

    fn remote_call(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        request: &[u8],
        reply: &mut ReplyBytes,
    ) -> Result<(), RemoteCallError> {
        self.call(who, rkey, addr, request, reply)
    }

    #[inline]
    fn remote_atomic(&self, who: Accessor, rkey: RKey, addr: u64, op: AtomicOp) -> Result<u64, MemoryError> {
        let grant = self.admit_remote(who, rkey, Access::REMOTE_ATOMIC)?;
        // SAFETY: the grant stays pinned until after the operation, and `admit_remote` has checked its
        // rights.
        let word = unsafe { grant.word(addr) }?;
        // Both the peer's address and the address of the bytes must be aligned. They differ for regions that
        // number their bytes from another base.
        match addr.is_multiple_of(8) {
            true => word.atomic(op).ok_or(MemoryError::Misaligned),
            false => Err(MemoryError::Misaligned),
        }
    }

    #[inline]
    fn remote_atomic_write(&self, who: Accessor, rkey: RKey, addr: u64, value: [u8; 8]) -> Result<(), MemoryError> {
        let grant = self.admit_remote(who, rkey, Access::REMOTE_WRITE)?;
        // SAFETY: the grant stays pinned until after the store, and `admit_remote` has checked its rights.
        let word = unsafe { grant.word(addr) }?;
        if !addr.is_multiple_of(8) || !word.is_word() {
            return Err(MemoryError::Misaligned);
        }
        word.write(&value);
        Ok(())
    }

    fn remote_flush(
        &self,
        who: Accessor,
        rkey: RKey,
        range: Option<(u64, u64)>,
        access: Access,
    ) -> Result<(), MemoryError> {
        let grant = self.admit_remote(who, rkey, access)?;
        if let Some((addr, len_bytes)) = range {
            grant.first_byte(addr, len_bytes)?;
        }
        // Processor caches are coherent, so only the order is left to enforce.
        fence(SeqCst);
        Ok(())
    }

    fn invalidate(&self, who: Accessor, rkey: RKey) -> Result<(), MemoryError> {
        self.invalidate_window(who, rkey, Unbound::IsInvalid)
    }

    fn remote_invalidate(&self, who: Accessor, rkey: RKey) -> Result<(), MemoryError> {
        self.invalidate_window(who, rkey, Unbound::IsAnError)
    }

    fn bind(&self, who: Accessor, bind: &BindMw) -> Result<(), MemoryError> {
        self.bind_window(who, bind)
    }
}

impl Registry {
    #[inline(always)]
    fn admit_local(&self, pd: PdId, sge: &Sge, write: bool) -> Result<Pin<'_, Grant>, MemoryError> {
        let grant = self.pin_local(sge.lkey)?;
        grant.admit_local(pd, write)?;
        Ok(grant)
    }

    #[inline(always)]
    fn admit_remote(&self, who: Accessor, rkey: RKey, access: Access) -> Result<Pin<'_, Grant>, MemoryError> {
        let grant = self.pin_remote(rkey)?;
        grant.admit_remote(who, access)?;
        Ok(grant)
    }
}

/// Calls `each` for every list entry that holds some of the `len` bytes after `offset`. `each` gets the
/// entry, cut to begin at those bytes, their position in the buffer, and their count. A list that is too
/// short is refused before any copy.
#[inline(always)]
fn walk(
    sgl: &[Sge],
    offset: u64,
    len: usize,
    mut each: impl FnMut(&Sge, usize, usize) -> Result<(), MemoryError>,
) -> Result<(), MemoryError> {
    if len == 0 {
        return Ok(());
    }
    let listed: u64 = sgl.iter().map(|sge| u64::from(sge.len_bytes)).sum();
    let end = offset.checked_add(len as u64);
    if end.is_none_or(|end| end > listed) {
        return Err(MemoryError::OutOfBounds);
    }
    let (mut skip, mut done) = (offset, 0);
    for sge in sgl {
        let held = u64::from(sge.len_bytes);
        if skip >= held {
            skip -= held;
            continue;
        }
        let take = (held - skip).min((len - done) as u64);
        let addr = sge.addr.checked_add(skip).ok_or(MemoryError::OutOfBounds)?;
        let piece = Sge { addr, ..*sge };
        each(&piece, done, take as usize)?;
        done += take as usize;
        skip = 0;
        if done == len {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

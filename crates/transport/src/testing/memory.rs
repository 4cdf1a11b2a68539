//! Memory in vectors, behind keys: small, slow, and as strict as the real one.

use std::cell::RefCell;

use wire::{Qpn, RKey};

use crate::call::{RemoteCallError, ReplyBytes};
use crate::memory::{Access, Accessor, AtomicOp, BindMw, LKey, Memory, MemoryError, PdId, Sge};
use crate::wr::{RemoteAddr, Sgl};

/// A region, as its owner knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    pub(crate) addr: u64,
    pub(crate) len_bytes: u32,
    pub(crate) lkey: LKey,
    pub(crate) rkey: RKey,
}

impl Buffer {
    /// A list entry for part of it.
    pub(crate) fn sge(&self, offset: u64, len_bytes: u32) -> Sge {
        Sge { addr: self.addr + offset, len_bytes, lkey: self.lkey }
    }

    /// A list of all of it.
    pub(crate) fn sgl(&self) -> Sgl {
        Sgl::from_slice(&[self.sge(0, self.len_bytes)])
    }

    /// An address in it, for a peer.
    pub(crate) fn remote(&self, offset: u64) -> RemoteAddr {
        RemoteAddr { addr: self.addr.wrapping_add(offset), rkey: self.rkey }
    }
}

#[derive(Debug)]
struct Region {
    pd: PdId,
    addr: u64,
    bytes: Vec<u8>,
    access: Access,
    lkey: LKey,
    rkey: RKey,
    alive: bool,
}

#[derive(Debug)]
struct Window {
    pd: PdId,
    qpn: Option<Qpn>,
    rkey: RKey,
    /// Region, first address in it, length and rights; none while unbound.
    bound: Option<(usize, u64, u64, Access)>,
}

/// Bytes of a region that a key opens: region, offset.
type Place = (usize, usize);

/// Regions and windows. Keys are small and predictable, so that a test can miss them.
#[derive(Debug, Default)]
pub(crate) struct TestMemory {
    regions: RefCell<Vec<Region>>,
    windows: RefCell<Vec<Window>>,
    /// READs of objects that were carried out.
    pub(crate) object_reads: core::cell::Cell<usize>,
}

impl TestMemory {
    /// A region of zeros in `pd`; regions lie apart.
    pub(crate) fn region_in(&self, pd: PdId, len_bytes: usize, access: Access) -> Buffer {
        let mut regions = self.regions.borrow_mut();
        let number = regions.len() as u32 + 1;
        let buffer = Buffer {
            addr: u64::from(number) << 32,
            len_bytes: len_bytes as u32,
            lkey: LKey(0x1000_0000 + number),
            rkey: RKey(0x2000_0000 + number),
        };
        regions.push(Region {
            pd,
            addr: buffer.addr,
            bytes: vec![0; len_bytes],
            access,
            lkey: buffer.lkey,
            rkey: buffer.rkey,
            alive: true,
        });
        buffer
    }

    /// A region in the protection domain of the test nodes, with every right.
    pub(crate) fn region(&self, len_bytes: usize) -> Buffer {
        self.region_in(super::node::PD, len_bytes, Access::all())
    }

    /// A region that holds `bytes`.
    pub(crate) fn filled(&self, bytes: &[u8]) -> Buffer {
        let buffer = self.region(bytes.len());
        self.put(&buffer, 0, bytes);
        buffer
    }

    /// The bytes of a whole region, as its owner reads them.
    pub(crate) fn bytes(&self, buffer: &Buffer) -> Vec<u8> {
        self.regions.borrow()[region_index(buffer)].bytes.clone()
    }

    /// The owner's own store.
    pub(crate) fn put(&self, buffer: &Buffer, offset: usize, bytes: &[u8]) {
        self.regions.borrow_mut()[region_index(buffer)].bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    /// Deregisters.
    pub(crate) fn kill(&self, buffer: &Buffer) {
        self.regions.borrow_mut()[region_index(buffer)].alive = false;
    }

    /// A window of type 2 in the protection domain of the test nodes.
    pub(crate) fn window(&self) -> RKey {
        let mut windows = self.windows.borrow_mut();
        let rkey = RKey(0x3000_0000 + ((windows.len() as u32 + 1) << 8));
        windows.push(Window { pd: super::node::PD, qpn: None, rkey, bound: None });
        rkey
    }

    fn local(&self, pd: PdId, sge: &Sge, write: bool) -> Result<Place, MemoryError> {
        let regions = self.regions.borrow();
        let index = regions.iter().position(|r| r.alive && r.lkey == sge.lkey).ok_or(MemoryError::BadKey)?;
        let region = &regions[index];
        if region.pd != pd {
            return Err(MemoryError::WrongDomain);
        }
        if write && !region.access.contains(Access::LOCAL_WRITE) {
            return Err(MemoryError::NoPermission);
        }
        Ok((index, region.offset(sge.addr, u64::from(sge.len_bytes))?))
    }

    fn remote(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        len_bytes: u64,
        access: Access,
    ) -> Result<Place, MemoryError> {
        let regions = self.regions.borrow();
        if let Some(index) = regions.iter().position(|r| r.alive && r.rkey == rkey) {
            let region = &regions[index];
            allowed(region.pd == who.pd, region.access.contains(access))?;
            return Ok((index, region.offset(addr, len_bytes)?));
        }
        let windows = self.windows.borrow();
        let window = windows.iter().find(|w| w.rkey == rkey);
        let window = window.ok_or(MemoryError::BadKey)?;
        let (index, first, len, rights) = window.bound.ok_or(MemoryError::BadKey)?;
        let ours = window.pd == who.pd && window.qpn.is_none_or(|qpn| qpn == who.qpn);
        allowed(ours, rights.contains(access))?;
        range(first, len, addr, len_bytes)?;
        Ok((index, regions[index].offset(addr, len_bytes)?))
    }

    /// Calls `copy` with region, offset and range of the message for each piece of the list.
    fn pieces(
        &self,
        pd: PdId,
        sgl: &[Sge],
        offset: u64,
        len_bytes: usize,
        write: bool,
        mut copy: impl FnMut(&mut [u8], core::ops::Range<usize>),
    ) -> Result<(), MemoryError> {
        let (mut skip, mut done) = (offset, 0);
        for sge in sgl {
            if done == len_bytes {
                break;
            }
            if skip >= u64::from(sge.len_bytes) {
                skip -= u64::from(sge.len_bytes);
                continue;
            }
            let (index, start) = self.local(pd, sge, write)?;
            let start = start + skip as usize;
            let take = (sge.len_bytes as usize - skip as usize).min(len_bytes - done);
            let mut regions = self.regions.borrow_mut();
            copy(&mut regions[index].bytes[start..start + take], done..done + take);
            (skip, done) = (0, done + take);
        }
        if done < len_bytes {
            return Err(MemoryError::OutOfBounds);
        }
        Ok(())
    }
}

impl Region {
    fn offset(&self, addr: u64, len_bytes: u64) -> Result<usize, MemoryError> {
        range(self.addr, self.bytes.len() as u64, addr, len_bytes)?;
        Ok((addr - self.addr) as usize)
    }
}

fn region_index(buffer: &Buffer) -> usize {
    (buffer.addr >> 32) as usize - 1
}

fn allowed(domain: bool, right: bool) -> Result<(), MemoryError> {
    match (domain, right) {
        (false, _) => Err(MemoryError::WrongDomain),
        (true, false) => Err(MemoryError::NoPermission),
        (true, true) => Ok(()),
    }
}

fn range(first: u64, room: u64, addr: u64, len_bytes: u64) -> Result<(), MemoryError> {
    let inside =
        addr.checked_sub(first).and_then(|offset| offset.checked_add(len_bytes)).is_some_and(|end| end <= room);
    if inside { Ok(()) } else { Err(MemoryError::OutOfBounds) }
}

impl Memory for TestMemory {
    fn gather(&self, pd: PdId, sgl: &[Sge], offset: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        self.pieces(pd, sgl, offset, out.len(), false, |bytes, at| {
            out[at].copy_from_slice(bytes);
        })
    }

    fn scatter(&self, pd: PdId, sgl: &[Sge], offset: u64, data: &[u8]) -> Result<(), MemoryError> {
        self.pieces(pd, sgl, offset, data.len(), true, |bytes, at| {
            bytes.copy_from_slice(&data[at]);
        })
    }

    fn check_local(&self, pd: PdId, sgl: &[Sge], write: bool) -> Result<(), MemoryError> {
        for sge in sgl.iter().filter(|sge| sge.len_bytes != 0) {
            self.local(pd, sge, write)?;
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
        self.remote(who, rkey, addr, len_bytes, access).map(|_| ())
    }

    fn remote_write(&self, who: Accessor, rkey: RKey, addr: u64, data: &[u8]) -> Result<(), MemoryError> {
        let (index, start) = self.remote(who, rkey, addr, data.len() as u64, Access::REMOTE_WRITE)?;
        self.regions.borrow_mut()[index].bytes[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn remote_read(&self, who: Accessor, rkey: RKey, addr: u64, out: &mut [u8]) -> Result<(), MemoryError> {
        let (index, start) = self.remote(who, rkey, addr, out.len() as u64, Access::REMOTE_READ)?;
        out.copy_from_slice(&self.regions.borrow()[index].bytes[start..start + out.len()]);
        Ok(())
    }

    fn remote_read_object(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        lock_mask: u64,
        out: &mut [u8],
    ) -> Result<usize, MemoryError> {
        if !addr.is_multiple_of(8) {
            return Err(MemoryError::Misaligned);
        }
        self.object_reads.set(self.object_reads.get() + 1);
        self.remote_read(who, rkey, addr, out)?;
        let word = u64::from_ne_bytes(out[..8].try_into().expect("eight bytes"));
        Ok(if word & lock_mask == 0 { out.len() } else { 8 })
    }

    /// Adds up the requests in the first word, and replies with the sum and the request.
    fn remote_call(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        request: &[u8],
        reply: &mut ReplyBytes,
    ) -> Result<(), RemoteCallError> {
        let (index, start) = self.remote(who, rkey, addr, 1, Access::REMOTE_CALL).map_err(RemoteCallError::Refused)?;
        if request == b"panic" {
            return Err(RemoteCallError::Panicked);
        }
        let mut regions = self.regions.borrow_mut();
        let word = &mut regions[index].bytes[start..start + 8];
        let calls = u64::from_ne_bytes((&*word).try_into().expect("eight bytes")) + 1;
        word.copy_from_slice(&calls.to_ne_bytes());
        let _ = reply.append(&calls.to_ne_bytes()) && reply.append(request);
        Ok(())
    }

    fn remote_atomic(&self, who: Accessor, rkey: RKey, addr: u64, op: AtomicOp) -> Result<u64, MemoryError> {
        if !addr.is_multiple_of(8) {
            return Err(MemoryError::Misaligned);
        }
        let (index, start) = self.remote(who, rkey, addr, 8, Access::REMOTE_ATOMIC)?;
        let mut regions = self.regions.borrow_mut();
        let word = &mut regions[index].bytes[start..start + 8];
        let before = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
        let after = match op {
            AtomicOp::CompareSwap { compare, swap } if before == compare => swap,
            AtomicOp::CompareSwap { .. } => before,
            AtomicOp::FetchAdd { add } => before.wrapping_add(add),
        };
        word.copy_from_slice(&after.to_ne_bytes());
        Ok(before)
    }

    fn remote_atomic_write(&self, who: Accessor, rkey: RKey, addr: u64, value: [u8; 8]) -> Result<(), MemoryError> {
        if !addr.is_multiple_of(8) {
            return Err(MemoryError::Misaligned);
        }
        self.remote_write(who, rkey, addr, &value)
    }

    fn remote_flush(
        &self,
        who: Accessor,
        rkey: RKey,
        range: Option<(u64, u64)>,
        access: Access,
    ) -> Result<(), MemoryError> {
        let (addr, len_bytes) = match (range, self.regions.borrow().iter().find(|r| r.rkey == rkey)) {
            (None, Some(region)) => (region.addr, region.bytes.len() as u64),
            (range, _) => range.unwrap_or_default(),
        };
        self.remote(who, rkey, addr, len_bytes, access).map(drop)
    }

    fn invalidate(&self, who: Accessor, rkey: RKey) -> Result<(), MemoryError> {
        let mut windows = self.windows.borrow_mut();
        let window = windows.iter_mut().find(|w| w.rkey == rkey);
        let window = window.ok_or(MemoryError::BadKey)?;
        allowed(window.pd == who.pd && window.qpn.is_none_or(|qpn| qpn == who.qpn), true)?;
        window.bound = None;
        Ok(())
    }

    fn remote_invalidate(&self, who: Accessor, rkey: RKey) -> Result<(), MemoryError> {
        self.invalidate(who, rkey)
    }

    fn bind(&self, who: Accessor, bind: &BindMw) -> Result<(), MemoryError> {
        let mut windows = self.windows.borrow_mut();
        let window = windows.iter_mut().find(|w| w.rkey.0 >> 8 == bind.window.0 >> 8);
        let window = window.ok_or(MemoryError::BadKey)?;
        let regions = self.regions.borrow();
        let index = regions.iter().position(|r| r.alive && r.lkey == bind.region).ok_or(MemoryError::BadKey)?;
        allowed(regions[index].pd == who.pd, regions[index].access.contains(Access::MW_BIND))?;
        regions[index].offset(bind.addr, bind.len_bytes)?;
        window.rkey = bind.bound_rkey();
        window.qpn = Some(who.qpn);
        window.bound = Some((index, bind.addr, bind.len_bytes, bind.access));
        Ok(())
    }
}

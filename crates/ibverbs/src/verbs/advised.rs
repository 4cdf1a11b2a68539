//! The regions of a context by lkey, for `ibv_advise_mr(3)`.

use std::collections::HashMap;
use std::ops::Range;

use crate::boundary::Errno;
use abi::*;

/// The regions of one context.
#[derive(Default)]
pub(crate) struct AdvisedRegions(HashMap<u32, AdvisedRegion>);

/// The part of a region that advice concerns.
pub(crate) struct AdvisedRegion {
    pub(crate) pd: *mut ibv_pd,
    /// The region's addresses.
    pub(crate) range: Range<u64>,
    /// The distance from an address of the region to the process's address of the same byte.
    pub(crate) shift: u64,
    pub(crate) writable: bool,
}

// SAFETY: the pointer is compared, never dereferenced.
unsafe impl Send for AdvisedRegion {}

impl AdvisedRegions {
    pub(crate) fn insert(&mut self, lkey: u32, region: AdvisedRegion) {
        self.0.insert(lkey, region);
    }

    pub(crate) fn remove(&mut self, lkey: u32) {
        self.0.remove(&lkey);
    }

    /// The process's address and the length of an entry's bytes, if the region allows the advice.
    ///
    /// # Errors
    /// ENOENT for an unknown key, EFAULT beyond the region, EPERM for writes to a region without that right.
    pub(crate) fn locate(&self, pd: *mut ibv_pd, sge: &ibv_sge, write: bool) -> Result<(usize, usize), Errno> {
        let lkey = sge.lkey;
        let region = self.0.get(&lkey).filter(|region| region.pd == pd).ok_or(Errno(libc::ENOENT))?;
        let end = sge.addr.checked_add(u64::from(sge.length)).ok_or(Errno(libc::EFAULT))?;
        if sge.addr < region.range.start || end > region.range.end {
            return Err(Errno(libc::EFAULT));
        }
        if write && !region.writable {
            return Err(Errno(libc::EPERM));
        }
        Ok((sge.addr.wrapping_add(region.shift) as usize, sge.length as usize))
    }
}

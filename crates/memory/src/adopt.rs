//! Memory that the program allocated itself (its heap, its mappings) made reachable for peers
//! on the same host.
//!
//! A peer can map a memfd, but not another process' private pages. So when memory is registered,
//! its whole pages are moved into a memfd *in place*: the program keeps its pointers, and what is
//! behind them is shared from then on. When the last key over them ends they become private again.
//!
//! ```text
//!   freeze (userfaultfd: writers wait) -> copy what is there to a mapping of the memfd
//!     -> mremap that over the range -> thaw (the writers try again, on the new pages)
//! ```
//!
//! The other ways are slower or not one-sided. `process_vm_writev` costs more than a microsecond
//! at any size, against some 40 ns for 4 KiB through a mapping, and can do no atomics; a copy
//! through a ring needs the target's processor. They remain for what is not adopted: the partial
//! pages at both ends, which hold other data too (a [`Place`](crate::Place) says how many bytes),
//! stacks, memory with a file behind it, shared memory, huge pages of hugetlbfs, memory that is
//! read-only or executable, ranges with holes, and everything where the kernel refuses.
//!
//! What the program may notice:
//! - While memory moves (64 MiB at a time) writers wait. Where only the restricted userfaultfd
//!   is allowed, a system call that writes into it meanwhile (a `read` of another thread) fails
//!   with EFAULT. Where none is allowed (some container profiles) and there are threads but those
//!   of [`set_own_threads`], nothing is adopted.
//! - Registered pages count as shared memory: against the limits of tmpfs and of the control
//!   group, not against `vm.overcommit`. If there is no room, nothing is adopted.
//! - `mlock`, `madvise` marks, NUMA policies and protection keys of the range are lost.
//!   Transparent huge pages are those of shared memory while it is adopted. Afterwards the range
//!   stays a mapping of its own, which does not join its neighbours.
//! - `MADV_DONTNEED` on adopted memory does not zero it.
//! - After `fork` the child has a copy, as ever ([`fork`]), but one that is made at
//!   once. A child of `vfork` or `posix_spawn` shares all memory anyway until it executes another
//!   program. One of a bare `clone` system call, which runs no handlers, shares adopted pages with
//!   its parent.
//! - A descriptor for each adopted range; no more than a quarter of those that the process may open.
//!
//! Registrations that overlap share a memfd. A program may unmap memory before it deregisters
//! it; then it is only forgotten. Mappings are compared with the memfd before they are touched.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::objects::{Lodging, Object};
use crate::probe::{mappings, overlap, survey, whole_pages};
use crate::region::{HUGE_BYTES, checked, file_limit_bytes, memfd, page_bytes};

mod fork;
mod freeze;
mod moves;
mod stack;

pub use freeze::set_own_threads;
use moves::{Pages, Refused};

const NAME: &core::ffi::CStr = c"longarm-adopted";

/// Adopted ranges of this process, whichever registry they are registered in. They do not overlap.
static TABLE: Mutex<Table> = Mutex::new(Table { ranges: BTreeMap::new(), stuck: false });

struct Table {
    /// By first byte.
    ranges: BTreeMap<usize, Entry>,
    /// Some pages could not be moved back. So what was surveyed before the table was locked may
    /// have changed in between.
    stuck: bool,
}

struct Entry {
    adopted: Arc<Adopted>,
    /// Registrations that lie in it.
    keys: usize,
}

/// Pages of the program in a memfd.
#[derive(Debug)]
pub(crate) struct Adopted {
    fd: OwnedFd,
    inode: u64,
    bytes: u64,
    pages: Pages,
}

impl Object for Adopted {
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// A registration's share of an adopted range, which ends when the last is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    adopted: Arc<Adopted>,
}

/// Where a range that is being registered lies, if any of it is or can be adopted. `plain` is what
/// the survey said of its whole pages.
///
/// # Safety
/// If `plain`, the whole pages of the range must be private anonymous memory of the program, and
/// the caller must be its owner as [`register`](crate::Registry::register) asks.
pub(crate) unsafe fn lodge(range: Range<usize>, plain: bool) -> Option<Lodging> {
    let mut table = lock();
    let adopted = match table.over(&range) {
        Found::One(adopted) => adopted,
        Found::Many => return None,
        Found::None if plain && (!table.stuck || is_plain(&range)) => {
            // SAFETY: passed on to the caller.
            let adopted = Arc::new(unsafe { table.adopt(whole_pages(range.clone())) }.ok()?);
            table.ranges.insert(adopted.pages.range.start, Entry { adopted: Arc::clone(&adopted), keys: 0 });
            adopted
        }
        Found::None => return None,
    };
    let inside = overlap(&range, &adopted.pages.range);
    let (skip_front, skip_back) = (inside.start - range.start, range.end - inside.end);
    if skip_front.max(skip_back) >= page_bytes() || !adopted.is_mapped(&inside) {
        return None;
    }
    table.ranges.get_mut(&adopted.pages.range.start)?.keys += 1;
    Some(Lodging {
        offset: adopted.pages.offset + (inside.start - adopted.pages.range.start) as u64,
        skip_front: skip_front as u64,
        skip_back: skip_back as u64,
        object: Arc::clone(&adopted) as Arc<dyn Object>,
        _lease: Some(Lease { adopted }),
    })
}

impl Drop for Lease {
    /// If it was the last one, the pages become private again.
    fn drop(&mut self) {
        let mut table = lock();
        let start = self.adopted.pages.range.start;
        // After a fork the child has forgotten the range.
        let Some(entry) = table.ranges.get_mut(&start).filter(|entry| Arc::ptr_eq(&entry.adopted, &self.adopted))
        else {
            return;
        };
        entry.keys -= 1;
        if entry.keys > 0 {
            return;
        }
        table.ranges.remove(&start);
        for part in self.adopted.mapped_parts(&self.adopted.pages.range) {
            let reachable = !stack::overlaps(&part.range);
            // SAFETY: the memfd is mapped there, as was just seen.
            let moved = reachable && unsafe { moves::out_of_memfd(&part, self.adopted.fd.as_fd()) };
            table.stuck |= !moved;
        }
    }
}

/// What adopted ranges a range overlaps.
enum Found {
    None,
    One(Arc<Adopted>),
    Many,
}

impl Table {
    fn over(&self, range: &Range<usize>) -> Found {
        // They do not overlap each other, so no range before the last that begins before ours can reach into it.
        let before = self.ranges.range(..range.start).next_back();
        let mut found = before.into_iter().chain(self.ranges.range(range.start..range.end.max(range.start)));
        let mut over = found.by_ref().filter(|(_, entry)| !overlap(&entry.adopted.pages.range, range).is_empty());
        match (over.next(), over.next()) {
            (None, _) => Found::None,
            (Some((_, entry)), None) => Found::One(Arc::clone(&entry.adopted)),
            _ => Found::Many,
        }
    }

    /// # Safety
    /// As [`lodge`].
    unsafe fn adopt(&mut self, range: Range<usize>) -> io::Result<Adopted> {
        if !freeze::is_possible() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if self.ranges.len() as u64 >= descriptor_limit() / 4 || stack::overlaps(&range) {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        // As far into a huge page as the range itself, so that huge pages fit.
        let offset = if range.len() >= HUGE_BYTES { range.start % HUGE_BYTES } else { 0 };
        let bytes = offset.checked_add(range.len()).ok_or(io::ErrorKind::OutOfMemory)?;
        if file_limit_bytes() < bytes as u64 {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        fork::watch()?;
        let fd = memfd(NAME, bytes, 0)?;
        let pages = Pages { range, offset: offset as u64 };
        let inode = inode(fd.as_fd())?;
        // SAFETY: passed on to the caller; and this thread's stack is elsewhere.
        match unsafe { moves::into_memfd(&pages, fd.as_fd()) } {
            Ok(()) => {}
            Err(Refused::AsItWas(error)) => return Err(error),
            Err(Refused::Stuck) => {
                self.stuck = true;
                return Err(io::ErrorKind::OutOfMemory.into());
            }
        }
        Ok(Adopted { fd, inode, bytes: bytes as u64, pages })
    }
}

impl Adopted {
    /// The parts of a range within it where the memfd is still mapped as we did.
    fn mapped_parts(&self, range: &Range<usize>) -> Vec<Pages> {
        let offset_of = |at: usize| self.pages.offset + (at - self.pages.range.start) as u64;
        let ours = mappings(range).into_iter().filter_map(|mapping| {
            let part = overlap(&mapping.range, range);
            let offset = mapping.offset + (part.start - mapping.range.start) as u64;
            let same = mapping.shares(self.inode) && offset == offset_of(part.start);
            same.then_some(Pages { range: part, offset })
        });
        ours.collect()
    }

    fn is_mapped(&self, range: &Range<usize>) -> bool {
        let bytes: usize = self.mapped_parts(range).iter().map(|part| part.range.len()).sum();
        bytes == range.len()
    }
}

fn is_plain(range: &Range<usize>) -> bool {
    survey(range.start, range.len(), false).is_ok_and(|found| found.plain)
}

fn lock() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn inode(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: all zeros are such a structure, and the call fills it.
    unsafe {
        let mut status: libc::stat = core::mem::zeroed();
        checked(libc::fstat(fd.as_raw_fd(), &mut status))?;
        Ok(status.st_ino)
    }
}

fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: fills one structure; if it fails, there is no room that we know of.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur
}

#[cfg(test)]
mod tests;

//! Moving pages into a memfd and back, in place.
//!
//! Both ways: freeze a piece of the range, copy it to a mapping elsewhere, put that mapping in
//! its place with `mremap`, thaw. A piece at a time, so that no writer waits long and not much
//! memory exists twice.
//!
//! While a piece is frozen this thread writes to nothing but its stack and the copy: the
//! program's heap, and so ours, may lie in the piece.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use super::freeze::{Kind, NoSignals, Writers};
use super::{room, store};
use crate::probe::FileId;
use crate::region::{HUGE_BYTES, checked, page_bytes};
use crate::{calls, copies};

/// How much is moved at once, and so how much memory exists twice for a moment; less where there is no room for so
/// much. Huge pages fit. Each piece that moves back stays a mapping of its own, so few are better.
const PIECES_BYTES: [usize; 2] = [32 * HUGE_BYTES, 2 * HUGE_BYTES];
/// How many pages are looked up at once; what is known of them lies on the stack.
const LOOK_UP: usize = 256;
/// Bits of /proc/self/pagemap: the page is in memory, or swapped out.
const THERE: u64 = 3 << 62;

/// Whole pages of this process, and where in a memfd they lie or shall lie.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pub(super) range: Range<usize>,
    pub(super) offset: u64,
}

impl Pages {
    pub(super) fn pieces(&self, most_bytes: usize) -> impl Iterator<Item = Pages> + '_ {
        let first = self.range.start / most_bytes * most_bytes;
        (first..self.range.end).step_by(most_bytes).map(move |start| {
            let range = start.max(self.range.start)..self.range.end.min(start + most_bytes);
            Pages { offset: self.offset + (range.start - self.range.start) as u64, range }
        })
    }
}

impl Pages {
    /// How large pieces may be, if there is room for any to exist twice.
    fn piece_bytes(&self) -> io::Result<usize> {
        let fit = PIECES_BYTES.into_iter().find(|bytes| room::is_there(self.range.len().min(*bytes)));
        fit.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

/// A mapping of adopted pages.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) pages: Pages,
    /// What the program may do with them.
    pub(super) rights: libc::c_int,
    /// Or a private copy, since a fork.
    pub(super) shared: bool,
    pub(super) file: FileId,
}

/// Why pages could not be moved.
#[derive(Debug)]
pub(super) enum Refused {
    /// And everything is as it was.
    AsItWas(io::Error),
    /// And some of them could not be moved back.
    Stuck,
}

/// Moves private pages into a memfd that is large enough, and maps that in their place.
///
/// # Safety
/// The pages must be private anonymous memory, readable and writable, and not of this
/// thread's stack.
pub(super) unsafe fn into_memfd(pages: &Pages, memfd: &impl AsFd, writers: Writers) -> Result<(), Refused> {
    let memfd = memfd.as_fd();
    let piece_bytes = pages.piece_bytes().map_err(Refused::AsItWas)?;
    let pagemap = pagemap().map_err(Refused::AsItWas)?;
    let _quiet = NoSignals::new();
    for piece in pages.pieces(piece_bytes) {
        // SAFETY: a part of them.
        if let Err(error) = unsafe { piece_into_memfd(&piece, memfd, &pagemap, writers) } {
            let range = pages.range.start..piece.range.start;
            let pages = Pages { range, ..pages.clone() };
            let moved = Part { pages, rights: READ_WRITE, shared: true, file: FileId::default() };
            // SAFETY: these have just been moved.
            let back = unsafe { out_of_memfd(&moved, &memfd, writers, Then::Free) };
            return Err(if back { Refused::AsItWas(error) } else { Refused::Stuck });
        }
    }
    Ok(())
}

unsafe fn piece_into_memfd(pages: &Pages, memfd: BorrowedFd<'_>, pagemap: &File, writers: Writers) -> io::Result<()> {
    let copy = Copy::of_memfd(pages, memfd)?;
    let _still = writers.keep_away(&pages.range, Kind::Private)?;
    // SAFETY: the pages are readable, and the copy is as long.
    unsafe { copy.fill_with_present(pages, pagemap) }?;
    // SAFETY: the copy holds all that the pages hold, and nobody changes them.
    unsafe { copy.replace(pages, memfd) }.map(drop)
}

/// Moves pages back into private memory, as far as that is possible. What cannot be moved stays;
/// whether there was nothing of the kind.
///
/// # Safety
/// The memfd must be mapped in these pages, at this offset, and they must not be of this thread's
/// stack.
pub(super) unsafe fn out_of_memfd(part: &Part, memfd: &impl AsFd, writers: Writers, then: Then) -> bool {
    let memfd = memfd.as_fd();
    let (Ok(pagemap), Ok(piece_bytes)) = (pagemap(), part.pages.piece_bytes()) else { return false };
    let _quiet = NoSignals::new();
    let mut all = true;
    for piece in part.pages.pieces(piece_bytes) {
        let piece = Part { pages: piece, ..part.clone() };
        // SAFETY: a part of them.
        let moved = unsafe { piece_out_of_memfd(&piece, memfd, &pagemap, writers) }.is_ok();
        if moved && then == Then::Free {
            store::free(&memfd, piece.pages.offset, piece.pages.range.len() as u64);
        }
        all &= moved;
    }
    all
}

/// The fate of pages in the memfd that have moved back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// Nobody else looks at them.
    Free,
    /// The child of a fork may look at them.
    Keep,
}

unsafe fn piece_out_of_memfd(part: &Part, memfd: BorrowedFd<'_>, pagemap: &File, writers: Writers) -> io::Result<()> {
    let pages = &part.pages;
    let copy = Copy::private(&pages.range)?;
    let _still = if part.shared { writers.keep_away(&pages.range, Kind::Shared)? } else { None };
    copy.read(pages, memfd)?;
    if !part.shared {
        if writers != Writers::None || part.rights & libc::PROT_READ == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // SAFETY: the pages are readable. Those that the program has written since lie over those of the file.
        unsafe { copy.fill_with_present(pages, pagemap) }?;
    }
    copy.allow(part.rights)?;
    // SAFETY: the copy holds all that the memfd holds there, and nobody changes it.
    match unsafe { copy.replace(pages, memfd) }? {
        Replaced::ByCopy => Ok(()),
        Replaced::ByMemfd => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// A private copy of pages of a memfd as they are now, for the child of a fork.
///
/// # Errors
/// If there is no memory for it.
pub(super) fn snapshot(part: &Part, memfd: &impl AsFd) -> io::Result<Copy> {
    let copy = Copy::private(&part.pages.range)?;
    copy.read(&part.pages, memfd.as_fd())?;
    copy.allow(part.rights)?;
    Ok(copy)
}

const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

fn pagemap() -> io::Result<File> {
    File::open("/proc/self/pagemap")
}

/// What took the place of pages.
enum Replaced {
    ByCopy,
    ByMemfd,
}

/// A mapping that will take the place of another; unmapped if it does not.
#[derive(Debug)]
pub(super) struct Copy {
    start: usize,
    len_bytes: usize,
}

impl Copy {
    fn of_memfd(pages: &Pages, memfd: BorrowedFd<'_>) -> io::Result<Copy> {
        let copy = Copy::reserve(&pages.range)?;
        copy.map(libc::MAP_SHARED, memfd.as_raw_fd(), pages.offset)?;
        if copy.len_bytes >= HUGE_BYTES {
            // A wish.
            // SAFETY: our own mapping.
            unsafe { calls::madvise(pointer(copy.start), copy.len_bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(copy)
    }

    fn private(range: &Range<usize>) -> io::Result<Copy> {
        let copy = Copy::reserve(range)?;
        copy.map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        Ok(copy)
    }

    /// As many addresses, as far from a multiple of the huge page as the range itself, so that
    /// huge pages can move whole.
    fn reserve(range: &Range<usize>) -> io::Result<Copy> {
        let len_bytes = range.len();
        let spare = if len_bytes >= HUGE_BYTES { HUGE_BYTES } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let all = unsafe { calls::mmap(core::ptr::null_mut(), len_bytes + spare, libc::PROT_NONE, flags, -1, 0) };
        if all == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let before = if spare == 0 { 0 } else { range.start.wrapping_sub(all.addr()) % HUGE_BYTES };
        // SAFETY: what is before and behind of our own mapping.
        unsafe {
            if before > 0 {
                calls::munmap(all, before);
            }
            if spare > before {
                calls::munmap(all.wrapping_byte_add(before + len_bytes), spare - before);
            }
        }
        Ok(Copy { start: all.addr() + before, len_bytes })
    }

    fn map(&self, flags: libc::c_int, fd: libc::c_int, offset: u64) -> io::Result<()> {
        // SAFETY: over our own mapping.
        unsafe { map_at(self.start, self.len_bytes, flags, fd, offset) }
    }

    /// Copies those pages in that are in memory or swapped out.
    ///
    /// # Safety
    /// The pages must be readable, and as many as there are here.
    unsafe fn fill_with_present(&self, pages: &Pages, pagemap: &File) -> io::Result<()> {
        let mut states = [0u64; LOOK_UP];
        let page = page_bytes();
        for from in pages.range.clone().step_by(LOOK_UP * page) {
            let count = LOOK_UP.min((pages.range.end - from) / page);
            let states = &mut states[..count];
            look_up(pagemap, from / page, states)?;
            let mut at = 0;
            for run in states.chunk_by(|one, other| (one & THERE == 0) == (other & THERE == 0)) {
                if run[0] & THERE != 0 {
                    let offset = from - pages.range.start + at * page;
                    // SAFETY: within the pages; they are there, and readable.
                    unsafe { self.fill(offset, pages.range.start + offset, run.len() * page) }?;
                }
                at += run.len();
            }
        }
        Ok(())
    }

    /// What the program may do with it.
    fn allow(&self, rights: libc::c_int) -> io::Result<()> {
        if rights == READ_WRITE {
            return Ok(());
        }
        // SAFETY: our own mapping.
        checked(unsafe { libc::mprotect(pointer(self.start), self.len_bytes, rights) }).map(drop)
    }

    /// Copies bytes in, with memory taken first in a way that reports when there is none.
    ///
    /// # Safety
    /// `from` must be readable.
    unsafe fn fill(&self, offset: usize, from: usize, len_bytes: usize) -> io::Result<()> {
        let to: *mut u8 = pointer(self.start + offset);
        // SAFETY: within our own mapping, which lies elsewhere.
        unsafe {
            checked(calls::madvise(to.cast(), len_bytes, libc::MADV_POPULATE_WRITE))?;
            copies::copy_apart(pointer(from), to, len_bytes);
        }
        Ok(())
    }

    /// Reads what a memfd holds of these pages.
    fn read(&self, pages: &Pages, memfd: BorrowedFd<'_>) -> io::Result<()> {
        let (fd, end) = (memfd.as_raw_fd(), pages.offset as i64 + self.len_bytes as i64);
        let mut at = pages.offset as i64;
        // SAFETY: system calls that write to our own mapping, no more than it holds.
        unsafe {
            while at < end {
                let data = libc::lseek(fd, at, libc::SEEK_DATA);
                if data < 0 || data >= end {
                    return Ok(());
                }
                let hole = libc::lseek(fd, data, libc::SEEK_HOLE).clamp(data, end);
                let to = pointer(self.start + (data - pages.offset as i64) as usize);
                // At once is cheaper than page by page, and reports when there is no memory.
                checked(calls::madvise(to, (hole - data) as usize, libc::MADV_POPULATE_WRITE))?;
                at = data;
                while at < hole {
                    let to = pointer(self.start + (at - pages.offset as i64) as usize);
                    match libc::pread(fd, to, (hole - at) as usize, at) {
                        count if count > 0 => at += count as i64,
                        _ => return Err(io::Error::from_raw_os_error(libc::EIO)),
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the place of the pages. Should the kernel fail half way, when the old mapping is gone
    /// already, the memfd is mapped there: it has all that the pages have.
    ///
    /// # Safety
    /// The copy and the memfd must hold all that the pages hold.
    unsafe fn replace(self, pages: &Pages, memfd: BorrowedFd<'_>) -> io::Result<Replaced> {
        // SAFETY: passed on to the caller.
        let Err(error) = (unsafe { self.put(&pages.range) }) else {
            return Ok(Replaced::ByCopy);
        };
        let mut state = 0u8;
        // SAFETY: asks about one page.
        let there = unsafe { libc::mincore(pointer(pages.range.start), page_bytes(), &mut state) } == 0;
        if there {
            return Err(error);
        }
        let (start, len_bytes) = (pages.range.start, pages.range.len());
        // SAFETY: where nothing is mapped, and the program expects these pages.
        unsafe { map_at(start, len_bytes, libc::MAP_SHARED, memfd.as_raw_fd(), pages.offset) }?;
        Ok(Replaced::ByMemfd)
    }

    /// # Safety
    /// Nothing of the range may be needed any more.
    pub(super) unsafe fn put(self, range: &Range<usize>) -> io::Result<()> {
        // SAFETY: moves our own mapping over one that is not needed any more.
        let moved = unsafe { calls::move_to(pointer(self.start), self.len_bytes, pointer(range.start)) };
        if moved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        core::mem::forget(self);
        Ok(())
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody else knows.
        unsafe { calls::munmap(pointer(self.start), self.len_bytes) };
    }
}

/// # Safety
/// Nothing that is mapped there may be needed any more.
unsafe fn map_at(start: usize, len_bytes: usize, flags: libc::c_int, fd: libc::c_int, offset: u64) -> io::Result<()> {
    // SAFETY: passed on to the caller.
    let mapped =
        unsafe { calls::mmap(pointer(start), len_bytes, READ_WRITE, flags | libc::MAP_FIXED, fd, offset as i64) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What the kernel knows of pages, from the page with this number on.
fn look_up(pagemap: &File, first: usize, states: &mut [u64]) -> io::Result<()> {
    // SAFETY: any bytes are numbers.
    let bytes = unsafe { core::slice::from_raw_parts_mut(states.as_mut_ptr().cast::<u8>(), size_of_val(states)) };
    pagemap.read_exact_at(bytes, (first * size_of::<u64>()) as u64)
}

fn pointer<T>(address: usize) -> *mut T {
    core::ptr::with_exposed_provenance_mut(address)
}

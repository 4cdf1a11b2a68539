//! Moves pages into a memfd and back, in place.
//!
//! Both directions: freeze a piece of the range, copy it to a mapping elsewhere, put that mapping in its
//! place with `mremap`, thaw. One piece at a time, so that no writer waits long and little memory exists
//! twice.
//!
//! While a piece is frozen this thread writes only to its stack and the copy: the piece may contain the
//! program's heap, which this library shares.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use super::freeze::{MemoryKind, NoSignals, Writers};
use super::{room, store};
use crate::probe::InodeId;
use crate::region::{HUGE_BYTES, checked, page_bytes};
use crate::{calls, copies};

/// Bytes that move at once, and so exist twice for a moment; the smaller number if there is no room for the
/// larger. Both are whole huge pages. Each piece that moves back stays a mapping of its own, so few pieces
/// are better.
const PIECES_BYTES: [usize; 2] = [32 * HUGE_BYTES, 2 * HUGE_BYTES];
/// Pages that are looked up at once. Their states lie on the stack.
const LOOK_UP: usize = 256;
/// Bits of /proc/self/pagemap: the page is in memory, or swapped out.
const THERE: u64 = 3 << 62;

/// Whole pages of this process, and their present or future place in a memfd.
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
    /// The largest size of pieces for which there is room to exist twice.
    fn piece_bytes(&self) -> io::Result<usize> {
        let fit = PIECES_BYTES.into_iter().find(|bytes| room::is_there(self.range.len().min(*bytes)));
        fit.ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

/// A mapping of adopted pages.
#[derive(Clone, Debug)]
pub(super) struct AdoptedPart {
    pub(super) pages: Pages,
    /// The program's rights (`PROT_*`).
    pub(super) rights: libc::c_int,
    /// False if it is a private copy since a fork.
    pub(super) shared: bool,
    pub(super) file: InodeId,
}

/// The reason why pages could not be moved.
#[derive(Debug)]
pub(super) enum MoveError {
    /// All pages are unchanged.
    Unchanged(io::Error),
    /// Some pages could not be moved back.
    Stuck,
}

/// Moves private pages into a memfd that is large enough, and maps the memfd in their place.
///
/// # Safety
/// The pages must be private anonymous memory, readable and writable, and not of this
/// thread's stack.
pub(super) unsafe fn into_memfd(pages: &Pages, memfd: &impl AsFd, writers: Writers) -> Result<(), MoveError> {
    let memfd = memfd.as_fd();
    let piece_bytes = pages.piece_bytes().map_err(MoveError::Unchanged)?;
    let pagemap = pagemap().map_err(MoveError::Unchanged)?;
    let _quiet = NoSignals::new();
    for piece in pages.pieces(piece_bytes) {
        // SAFETY: a part of the pages that this function's contract describes.
        if let Err(error) = unsafe { piece_into_memfd(&piece, memfd, &pagemap, writers) } {
            let range = pages.range.start..piece.range.start;
            let pages = Pages { range, ..pages.clone() };
            let moved = AdoptedPart { pages, rights: READ_WRITE, shared: true, file: InodeId::default() };
            // SAFETY: the loop above has just mapped the memfd in these pages.
            let back = unsafe { out_of_memfd(&moved, &memfd, writers, AfterMove::Free) };
            return Err(if back { MoveError::Unchanged(error) } else { MoveError::Stuck });
        }
    }
    Ok(())
}

unsafe fn piece_into_memfd(pages: &Pages, memfd: BorrowedFd<'_>, pagemap: &File, writers: Writers) -> io::Result<()> {
    let copy = PageCopy::of_memfd(pages, memfd)?;
    let _still = writers.keep_away(&pages.range, MemoryKind::Private)?;
    // SAFETY: the pages are readable, and the copy has the same length.
    unsafe { copy.fill_with_present(pages, pagemap) }?;
    // SAFETY: the copy holds all bytes of the pages, and `keep_away` has stopped their writers.
    unsafe { copy.replace(pages, memfd) }.map(drop)
}

/// Moves pages back into private memory as far as possible. Returns true if no page had to stay.
///
/// # Safety
/// The memfd must be mapped in these pages, at this offset, and they must not be of this thread's
/// stack.
pub(super) unsafe fn out_of_memfd(part: &AdoptedPart, memfd: &impl AsFd, writers: Writers, then: AfterMove) -> bool {
    let memfd = memfd.as_fd();
    let (Ok(pagemap), Ok(piece_bytes)) = (pagemap(), part.pages.piece_bytes()) else { return false };
    let _quiet = NoSignals::new();
    let mut all = true;
    for piece in part.pages.pieces(piece_bytes) {
        let piece = AdoptedPart { pages: piece, ..part.clone() };
        // SAFETY: a part of the pages that this function's contract describes.
        let moved = unsafe { piece_out_of_memfd(&piece, memfd, &pagemap, writers) }.is_ok();
        if moved && then == AfterMove::Free {
            store::free(&memfd, piece.pages.offset, piece.pages.range.len() as u64);
        }
        all &= moved;
    }
    all
}

/// The fate of pages in the memfd that have moved back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AfterMove {
    /// No other process reads them.
    Free,
    /// The child of a fork may read them.
    Keep,
}

unsafe fn piece_out_of_memfd(
    part: &AdoptedPart,
    memfd: BorrowedFd<'_>,
    pagemap: &File,
    writers: Writers,
) -> io::Result<()> {
    let pages = &part.pages;
    let copy = PageCopy::private(&pages.range)?;
    let _still = if part.shared { writers.keep_away(&pages.range, MemoryKind::Shared)? } else { None };
    copy.read(pages, memfd)?;
    if !part.shared {
        if writers != Writers::None || part.rights & libc::PROT_READ == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // SAFETY: the pages are readable. Pages that the program has written since the fork replace those of
        // the file.
        unsafe { copy.fill_with_present(pages, pagemap) }?;
    }
    copy.allow(part.rights)?;
    // SAFETY: the copy holds all bytes of the pages, and `keep_away` has stopped their writers.
    match unsafe { copy.replace(pages, memfd) }? {
        Replaced::ByCopy => Ok(()),
        Replaced::ByMemfd => Err(io::ErrorKind::OutOfMemory.into()),
    }
}

/// A private copy of the present contents of pages of a memfd, for the child of a fork.
///
/// # Errors
/// If there is no memory for it.
pub(super) fn snapshot(part: &AdoptedPart, memfd: &impl AsFd) -> io::Result<PageCopy> {
    let copy = PageCopy::private(&part.pages.range)?;
    copy.read(&part.pages, memfd.as_fd())?;
    copy.allow(part.rights)?;
    Ok(copy)
}

const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

fn pagemap() -> io::Result<File> {
    File::open("/proc/self/pagemap")
}

/// The mapping that took the place of pages.
enum Replaced {
    ByCopy,
    ByMemfd,
}

/// A mapping that will take the place of another; unmapped if it does not.
#[derive(Debug)]
pub(super) struct PageCopy {
    start: usize,
    len_bytes: usize,
}

impl PageCopy {
    fn of_memfd(pages: &Pages, memfd: BorrowedFd<'_>) -> io::Result<PageCopy> {
        let copy = PageCopy::reserve(&pages.range)?;
        copy.map(libc::MAP_SHARED, memfd.as_raw_fd(), pages.offset)?;
        if copy.len_bytes >= HUGE_BYTES {
            // MADV_HUGEPAGE is only a hint, so its result does not matter.
            // SAFETY: the mapping belongs to this value.
            unsafe { calls::madvise(pointer(copy.start), copy.len_bytes, libc::MADV_HUGEPAGE) };
        }
        Ok(copy)
    }

    fn private(range: &Range<usize>) -> io::Result<PageCopy> {
        let copy = PageCopy::reserve(range)?;
        copy.map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)?;
        Ok(copy)
    }

    /// Reserves an address range of the same length. It lies at the same offset from a multiple of the huge
    /// page as the range itself, so that huge pages can move whole.
    fn reserve(range: &Range<usize>) -> io::Result<PageCopy> {
        let len_bytes = range.len();
        let spare = if len_bytes >= HUGE_BYTES { HUGE_BYTES } else { 0 };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let all = unsafe { calls::mmap(core::ptr::null_mut(), len_bytes + spare, libc::PROT_NONE, flags, -1, 0) };
        if all == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let before = if spare == 0 { 0 } else { range.start.wrapping_sub(all.addr()) % HUGE_BYTES };
        // SAFETY: unmaps only the spare parts before and after the range, within the new mapping.
        unsafe {
            if before > 0 {
                calls::munmap(all, before);
            }
            if spare > before {
                calls::munmap(all.wrapping_byte_add(before + len_bytes), spare - before);
            }
        }
        Ok(PageCopy { start: all.addr() + before, len_bytes })
    }

    fn map(&self, flags: libc::c_int, fd: libc::c_int, offset: u64) -> io::Result<()> {
        // SAFETY: maps over this value's own mapping.
        unsafe { map_at(self.start, self.len_bytes, flags, fd, offset) }
    }

    /// Copies those pages that are in memory or swapped out.
    ///
    /// # Safety
    /// The pages must be readable, and their number must be that of this mapping.
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
                    // SAFETY: within the pages, which this function's contract makes readable.
                    unsafe { self.fill(offset, pages.range.start + offset, run.len() * page) }?;
                }
                at += run.len();
            }
        }
        Ok(())
    }

    /// Sets the program's rights (`PROT_*`).
    fn allow(&self, rights: libc::c_int) -> io::Result<()> {
        if rights == READ_WRITE {
            return Ok(());
        }
        // SAFETY: the mapping belongs to this value.
        checked(unsafe { libc::mprotect(pointer(self.start), self.len_bytes, rights) }).map(drop)
    }

    /// Copies bytes in. It first populates the pages by a call that returns an error if there is no memory.
    ///
    /// # Safety
    /// `from` must be readable.
    unsafe fn fill(&self, offset: usize, from: usize, len_bytes: usize) -> io::Result<()> {
        let to: *mut u8 = pointer(self.start + offset);
        // SAFETY: `to` lies within this value's own mapping, which does not overlap `from`.
        unsafe {
            checked(calls::madvise(to.cast(), len_bytes, libc::MADV_POPULATE_WRITE))?;
            copies::copy_apart(pointer(from), to, len_bytes);
        }
        Ok(())
    }

    /// Reads the memfd's contents of these pages.
    fn read(&self, pages: &Pages, memfd: BorrowedFd<'_>) -> io::Result<()> {
        let (fd, end) = (memfd.as_raw_fd(), pages.offset as i64 + self.len_bytes as i64);
        let mut at = pages.offset as i64;
        // SAFETY: system calls that write only to this value's own mapping, and no more bytes than it has.
        unsafe {
            while at < end {
                let data = libc::lseek(fd, at, libc::SEEK_DATA);
                if data < 0 || data >= end {
                    return Ok(());
                }
                let hole = libc::lseek(fd, data, libc::SEEK_HOLE).clamp(data, end);
                let to = pointer(self.start + (data - pages.offset as i64) as usize);
                // One call for the whole run is cheaper than a fault for each page, and it returns an error
                // if there is no memory.
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

    /// Puts the copy in the place of the pages. If the kernel fails after it has removed the old mapping, the
    /// memfd is mapped there: it has the same contents.
    ///
    /// # Safety
    /// The copy and the memfd must hold all that the pages hold.
    unsafe fn replace(self, pages: &Pages, memfd: BorrowedFd<'_>) -> io::Result<Replaced> {
        // SAFETY: this function's contract: the copy holds all that the pages hold.
        let Err(error) = (unsafe { self.put(&pages.range) }) else {
            return Ok(Replaced::ByCopy);
        };
        let mut state = 0u8;
        // SAFETY: writes the state of one page to one byte.
        let there = unsafe { libc::mincore(pointer(pages.range.start), page_bytes(), &mut state) } == 0;
        if there {
            return Err(error);
        }
        let (start, len_bytes) = (pages.range.start, pages.range.len());
        // SAFETY: nothing is mapped there, and the memfd has the bytes that the program expects (this
        // function's contract).
        unsafe { map_at(start, len_bytes, libc::MAP_SHARED, memfd.as_raw_fd(), pages.offset) }?;
        Ok(Replaced::ByMemfd)
    }

    /// # Safety
    /// Nobody may need the contents of the range any more.
    pub(super) unsafe fn put(self, range: &Range<usize>) -> io::Result<()> {
        // SAFETY: moves this value's own mapping over one that is not needed any more (this function's
        // contract).
        let moved = unsafe { calls::move_to(pointer(self.start), self.len_bytes, pointer(range.start)) };
        if moved == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        core::mem::forget(self);
        Ok(())
    }
}

impl Drop for PageCopy {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value, and no other code has its address.
        unsafe { calls::munmap(pointer(self.start), self.len_bytes) };
    }
}

/// # Safety
/// Nobody may need the present mapping any more.
unsafe fn map_at(start: usize, len_bytes: usize, flags: libc::c_int, fd: libc::c_int, offset: u64) -> io::Result<()> {
    // SAFETY: this function's contract: the present mapping is not needed.
    let mapped =
        unsafe { calls::mmap(pointer(start), len_bytes, READ_WRITE, flags | libc::MAP_FIXED, fd, offset as i64) };
    if mapped == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Reads the kernel's state of pages (/proc/self/pagemap), from the page with this number on.
fn look_up(pagemap: &File, first: usize, states: &mut [u64]) -> io::Result<()> {
    // SAFETY: any bytes are valid `u64`s.
    let bytes = unsafe { core::slice::from_raw_parts_mut(states.as_mut_ptr().cast::<u8>(), size_of_val(states)) };
    pagemap.read_exact_at(bytes, (first * size_of::<u64>()) as u64)
}

fn pointer<T>(address: usize) -> *mut T {
    core::ptr::with_exposed_provenance_mut(address)
}

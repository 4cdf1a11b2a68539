//! Is it memory at all? Asked once, when anybody's memory is registered.
//!
//! `ibv_reg_mr` answers EFAULT for addresses that are not mapped, and for local write
//! access to pages that cannot be written. Hardware drivers learn that by pinning the pages. Nothing is pinned
//! here, so the kernel is asked about the mappings instead, which costs the same for
//! a page as for a terabyte: with the PROCMAP_QUERY request (Linux 6.11), or by
//! reading /proc/self/maps, or, where there is no /proc, with `msync`, which finds
//! holes but tells nothing about protection.
//!
//! The answer is about now. Memory that is unmapped or protected while it is
//! registered breaks the promise made to [`register`](crate::Registry::register).

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use crate::error::MrError;

/// One mapping of the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    pub(crate) range: Range<usize>,
    readable: bool,
    writable: bool,
    executable: bool,
    shared: bool,
    /// Of the file behind it; zero if there is none.
    inode: u64,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// Whether its pages have the ordinary size.
    ordinary: bool,
}

impl Mapping {
    /// Whether it is shared memory of this file.
    pub(crate) fn shares(&self, inode: u64) -> bool {
        self.shared && self.inode == inode
    }

    /// Whether it is readable and writable memory of this process alone, with nothing behind
    /// it, and not the first stack.
    fn is_plain(&self) -> bool {
        let rights = self.readable && self.writable && !self.executable;
        let anonymous = !self.shared && self.inode == 0 && self.ordinary;
        rights && anonymous && !self.range.contains(&on_first_stack())
    }
}

/// What is known of a range that may be registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Survey {
    /// All whole pages in it, of which there are some, are memory of this process alone,
    /// readable and writable, with nothing behind it.
    pub(crate) plain: bool,
}

/// As [`check`], and says what the memory is.
pub(crate) fn survey(start: usize, len_bytes: usize, write: bool) -> Result<Survey, MrError> {
    let inner = whole_pages(start..start + len_bytes);
    let mut plain_bytes = 0;
    look(start, len_bytes, write, |mapping| {
        if mapping.is_plain() {
            plain_bytes += overlap(&mapping.range, &inner).len();
        }
    })?;
    Ok(Survey { plain: !inner.is_empty() && plain_bytes == inner.len() })
}

/// The mappings that a range touches, in ascending order; none if the kernel does not tell.
pub(crate) fn mappings(range: &Range<usize>) -> Vec<Mapping> {
    let mut found = Vec::new();
    let Ok(maps) = File::open("/proc/self/maps") else {
        return found;
    };
    let mut at = range.start;
    while at < range.end {
        match query(&maps, at, QUERY_THIS_OR_NEXT) {
            Ok(mapping) if mapping.range.start < range.end => {
                at = mapping.range.end;
                found.push(mapping);
            }
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                return listed(BufReader::new(maps), range);
            }
            _ => break,
        }
    }
    found
}

/// The same from the list as text.
fn listed(maps: impl BufRead, range: &Range<usize>) -> Vec<Mapping> {
    let parsed = maps.lines().map_while(Result::ok).filter_map(|line| parse(&line).ok());
    parsed.filter(|mapping| !overlap(&mapping.range, range).is_empty()).collect()
}

/// The whole pages in a range; an empty range if there is none.
pub(crate) fn whole_pages(range: Range<usize>) -> Range<usize> {
    let page = crate::region::page_bytes();
    let start = range.start.checked_next_multiple_of(page).unwrap_or(range.end);
    start..(range.end / page * page).max(start)
}

/// What two ranges have in common.
pub(crate) fn overlap(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

/// An address that the kernel put onto the stack of the first thread.
fn on_first_stack() -> usize {
    static ADDRESS: OnceLock<usize> = OnceLock::new();
    // SAFETY: asks for a number.
    *ADDRESS.get_or_init(|| unsafe { libc::getauxval(libc::AT_RANDOM) } as usize)
}

/// Checks that all of a range is mapped, may be read and, if asked, written.
pub(crate) fn check(start: usize, len_bytes: usize, write: bool) -> Result<(), MrError> {
    look(start, len_bytes, write, |_| ())
}

/// Checks it, and shows every mapping on the way. Where the kernel has no list of mappings,
/// none is shown.
fn look(start: usize, len_bytes: usize, write: bool, mut seen: impl FnMut(&Mapping)) -> Result<(), MrError> {
    if len_bytes == 0 {
        return Ok(());
    }
    let range = start..start + len_bytes;
    let Ok(maps) = File::open("/proc/self/maps") else {
        return by_msync(range);
    };
    match by_query(&maps, &range, write, &mut seen) {
        Some(result) => result,
        None => by_text(BufReader::new(maps), &range, write, &mut seen).unwrap_or_else(|_| by_msync(range)),
    }
}

/// Goes from mapping to mapping with `next`, which gives the one that holds an address.
fn walk(
    range: &Range<usize>,
    write: bool,
    seen: &mut impl FnMut(&Mapping),
    mut next: impl FnMut(usize) -> Option<Mapping>,
) -> Result<(), MrError> {
    let mut at = range.start;
    while at < range.end {
        let mapping = next(at).ok_or(MrError::Unmapped)?;
        seen(&mapping);
        if !mapping.readable || (write && !mapping.writable) {
            return Err(MrError::Protected);
        }
        at = mapping.range.end;
    }
    Ok(())
}

/// Asks the kernel about one mapping after another; nothing if it cannot be asked so.
fn by_query(
    maps: &File,
    range: &Range<usize>,
    write: bool,
    seen: &mut impl FnMut(&Mapping),
) -> Option<Result<(), MrError>> {
    let mut unsupported = false;
    let result = walk(range, write, seen, |at| match query(maps, at, 0) {
        Ok(mapping) => Some(mapping),
        Err(error) => {
            unsupported = error.raw_os_error() != Some(libc::ENOENT);
            None
        }
    });
    (!unsupported).then_some(result)
}

/// `struct procmap_query` of <linux/fs.h>.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const PROCMAP_QUERY: libc::Ioctl = libc::_IOWR::<ProcmapQuery>(b'f' as u32, 17);
/// If no mapping holds the address, the first one behind it.
const QUERY_THIS_OR_NEXT: u64 = 0x10;
const VMA_READABLE: u64 = 1;
const VMA_WRITABLE: u64 = 2;
const VMA_EXECUTABLE: u64 = 4;
const VMA_SHARED: u64 = 8;

/// The mapping that holds an address; ENOENT if there is none.
fn query(maps: &File, at: usize, flags: u64) -> io::Result<Mapping> {
    let size = size_of::<ProcmapQuery>() as u64;
    let mut query = ProcmapQuery { size, query_flags: flags, query_addr: at as u64, ..ProcmapQuery::default() };
    // SAFETY: the request reads and writes one such structure, whose size it is told.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &mut query) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Mapping {
        range: query.vma_start as usize..query.vma_end as usize,
        readable: query.vma_flags & VMA_READABLE != 0,
        writable: query.vma_flags & VMA_WRITABLE != 0,
        executable: query.vma_flags & VMA_EXECUTABLE != 0,
        shared: query.vma_flags & VMA_SHARED != 0,
        inode: query.inode,
        offset: query.vma_offset,
        ordinary: query.vma_page_size == crate::region::page_bytes() as u64,
    })
}

/// Reads the list of mappings, which is in ascending order.
fn by_text(
    maps: impl BufRead,
    range: &Range<usize>,
    write: bool,
    seen: &mut impl FnMut(&Mapping),
) -> io::Result<Result<(), MrError>> {
    let mut lines = maps.lines();
    let mut failed = None;
    let result = walk(range, write, seen, |at| {
        for line in lines.by_ref() {
            match line.and_then(|line| parse(&line)) {
                Ok(mapping) if mapping.range.end <= at => {}
                Ok(mapping) => return mapping.range.contains(&at).then_some(mapping),
                Err(error) => {
                    failed = Some(error);
                    return None;
                }
            }
        }
        None
    });
    failed.map_or(Ok(result), Err)
}

/// A line such as `7f00dead0000-7f00dead2000 rw-p 00000000 00:00 0`.
fn parse(line: &str) -> io::Result<Mapping> {
    let fields = || {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let rights = words.next()?.as_bytes();
        let offset = words.next()?;
        let (_device, inode) = (words.next()?, words.next()?);
        Some(Mapping {
            range: address(start)?..address(end)?,
            readable: rights.first() == Some(&b'r'),
            writable: rights.get(1) == Some(&b'w'),
            executable: rights.get(2) == Some(&b'x'),
            shared: rights.get(3) == Some(&b's'),
            inode: inode.parse().ok()?,
            offset: u64::from_str_radix(offset, 16).ok()?,
            // Huge pages have a file behind them.
            ordinary: true,
        })
    };
    fields().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

fn address(text: &str) -> Option<usize> {
    usize::from_str_radix(text, 16).ok()
}

/// Asks whether a range has holes. An asynchronous `msync` looks at the mappings and
/// does nothing else.
fn by_msync(range: Range<usize>) -> Result<(), MrError> {
    let page = crate::region::page_bytes();
    let start = range.start / page * page;
    let first = core::ptr::without_provenance_mut(start);
    // SAFETY: changes nothing, whatever the range.
    match unsafe { libc::msync(first, range.end - start, libc::MS_ASYNC) } {
        0 => Ok(()),
        _ => Err(MrError::Unmapped),
    }
}

#[cfg(test)]
mod tests;

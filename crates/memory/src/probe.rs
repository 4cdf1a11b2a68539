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

use crate::error::MrError;

/// One mapping of the process.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mapping {
    range: Range<usize>,
    readable: bool,
    writable: bool,
}

/// Checks that all of a range is mapped, may be read and, if asked, written.
pub(crate) fn check(start: usize, len_bytes: usize, write: bool) -> Result<(), MrError> {
    if len_bytes == 0 {
        return Ok(());
    }
    let range = start..start + len_bytes;
    let Ok(maps) = File::open("/proc/self/maps") else {
        return by_msync(range);
    };
    match by_query(&maps, &range, write) {
        Some(result) => result,
        None => by_text(BufReader::new(maps), &range, write).unwrap_or_else(|_| by_msync(range)),
    }
}

/// Goes from mapping to mapping with `next`, which gives the one that holds an address.
fn walk(range: &Range<usize>, write: bool, mut next: impl FnMut(usize) -> Option<Mapping>) -> Result<(), MrError> {
    let mut at = range.start;
    while at < range.end {
        let mapping = next(at).ok_or(MrError::Unmapped)?;
        if !mapping.readable || (write && !mapping.writable) {
            return Err(MrError::Protected);
        }
        at = mapping.range.end;
    }
    Ok(())
}

/// Asks the kernel about one mapping after another; nothing if it cannot be asked so.
fn by_query(maps: &File, range: &Range<usize>, write: bool) -> Option<Result<(), MrError>> {
    let mut unsupported = false;
    let result = walk(range, write, |at| match query(maps, at) {
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
const VMA_READABLE: u64 = 1;
const VMA_WRITABLE: u64 = 2;

/// The mapping that holds an address; ENOENT if there is none.
fn query(maps: &File, at: usize) -> io::Result<Mapping> {
    let mut query =
        ProcmapQuery { size: size_of::<ProcmapQuery>() as u64, query_addr: at as u64, ..ProcmapQuery::default() };
    // SAFETY: the request reads and writes one such structure, whose size it is told.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &mut query) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Mapping {
        range: query.vma_start as usize..query.vma_end as usize,
        readable: query.vma_flags & VMA_READABLE != 0,
        writable: query.vma_flags & VMA_WRITABLE != 0,
    })
}

/// Reads the list of mappings, which is in ascending order.
fn by_text(maps: impl BufRead, range: &Range<usize>, write: bool) -> io::Result<Result<(), MrError>> {
    let mut lines = maps.lines();
    let mut failed = None;
    let result = walk(range, write, |at| {
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
        Some(Mapping {
            range: address(start)?..address(end)?,
            readable: rights.first() == Some(&b'r'),
            writable: rights.get(1) == Some(&b'w'),
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

//! Checks of a range's mappings, made once when a program registers its own memory.
//!
//! `ibv_reg_mr` returns EFAULT for addresses that are not mapped, and for local write access to pages that
//! cannot be written. Hardware drivers find that out when they pin the pages. This library pins nothing, so
//! it asks the kernel about the mappings instead, at the same cost for a page as for a terabyte. It uses the
//! PROCMAP_QUERY request (Linux 6.11), or reads /proc/self/maps. Where there is no /proc it uses `msync`,
//! which finds holes but does not check protection.
//!
//! The answer holds for this moment. A program that unmaps or protects memory while it is registered breaks
//! the contract of [`register`](crate::Registry::register).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use crate::error::MrError;

/// Identifies a file for as long as the file exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct InodeId {
    /// The major number in the upper half, the minor number in the lower.
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl InodeId {
    pub(crate) fn new(major: u32, minor: u32, inode: u64) -> InodeId {
        InodeId { device: u64::from(major) << 32 | u64::from(minor), inode }
    }
}

/// One mapping of the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MapsEntry {
    pub(crate) range: Range<usize>,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    pub(crate) shared: bool,
    /// The device and the inode of the file behind it; zeros if there is none.
    pub(crate) file: InodeId,
    /// The offset of the mapping in the file, in bytes.
    pub(crate) offset: u64,
    /// True if its pages have the ordinary size.
    ordinary: bool,
}

impl MapsEntry {
    /// The program's rights to the bytes, as mprotect(2) takes them.
    pub(crate) fn rights(&self) -> libc::c_int {
        let right = |has: bool, right: libc::c_int| if has { right } else { libc::PROT_NONE };
        right(self.readable, libc::PROT_READ)
            | right(self.writable, libc::PROT_WRITE)
            | right(self.executable, libc::PROT_EXEC)
    }

    /// The part of the mapping in a range, and that part's offset in the file.
    pub(crate) fn part(&self, range: &Range<usize>) -> (Range<usize>, u64) {
        let part = overlap(&self.range, range);
        let offset = self.offset + (part.start.saturating_sub(self.range.start)) as u64;
        (part, offset)
    }

    /// True if it is readable and writable anonymous memory of this process alone, and not the first thread's
    /// stack.
    fn is_plain(&self) -> bool {
        let rights = self.readable && self.writable && !self.executable;
        let anonymous = !self.shared && self.file.inode == 0 && self.ordinary;
        rights && anonymous && !self.range.contains(&on_first_stack())
    }
}

/// The result of [`survey`] for a range that may be registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Survey {
    /// The range has whole pages, and all of them are readable and writable anonymous memory of this process
    /// alone.
    pub(crate) plain: bool,
}

/// Like [`check`], and also returns the kind of memory.
pub(crate) fn survey(start: usize, len_bytes: usize, write: bool) -> Result<Survey, MrError> {
    let inner = whole_pages(start..start + len_bytes);
    let mut plain_bytes = 0;
    check_and_visit(start, len_bytes, write, |mapping| {
        if mapping.is_plain() {
            plain_bytes += overlap(&mapping.range, &inner).len();
        }
    })?;
    Ok(Survey { plain: !inner.is_empty() && plain_bytes == inner.len() })
}

/// Calls `seen` for the mappings that a range touches, in ascending order; for none if the kernel does not
/// tell. Allocates nothing: the caller may be the program's allocator.
pub(crate) fn visit(range: &Range<usize>, mut seen: impl FnMut(&MapsEntry)) {
    let Ok(maps) = File::open(MAPS) else { return };
    let mut at = range.start;
    while at < range.end {
        match query(&maps, at, QUERY_THIS_OR_NEXT) {
            Ok(mapping) if mapping.range.start < range.end => {
                at = mapping.range.end;
                seen(&mapping);
            }
            Err(error) if error.raw_os_error() != Some(libc::ENOENT) => {
                return visit_lines(&maps, |mapping, _| {
                    if !overlap(&mapping.range, range).is_empty() {
                        seen(mapping);
                    }
                });
            }
            _ => break,
        }
    }
}

/// Calls `seen` for every mapping of the process and its name. Allocates nothing, like [`visit`].
pub(crate) fn visit_all(seen: impl FnMut(&MapsEntry, &[u8])) {
    if let Ok(maps) = File::open(MAPS) {
        visit_lines(&maps, seen);
    }
}

const MAPS: &str = "/proc/self/maps";
/// The buffer for lines; the name in a longer line is cut.
const LINE_BYTES: usize = 8192;

fn visit_lines(mut maps: impl Read, mut seen: impl FnMut(&MapsEntry, &[u8])) {
    let mut buffer = [0u8; LINE_BYTES];
    let mut filled = 0;
    loop {
        match maps.read(&mut buffer[filled..]) {
            Ok(0) => return,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        let mut begin = 0;
        while let Some(len) = buffer[begin..filled].iter().position(|byte| *byte == b'\n') {
            let line = &buffer[begin..begin + len];
            if let Some(mapping) = parse(line) {
                seen(&mapping, name(line));
            }
            begin += len + 1;
        }
        // The rest of a line that is longer than the buffer does not parse.
        let rest = if begin == 0 && filled == LINE_BYTES { filled } else { begin };
        buffer.copy_within(rest..filled, 0);
        filled -= rest;
    }
}

/// The whole pages in a range; an empty range if there is none.
pub(crate) fn whole_pages(range: Range<usize>) -> Range<usize> {
    let page = crate::region::page_bytes();
    let start = range.start.checked_next_multiple_of(page).unwrap_or(range.end);
    start..(range.end / page * page).max(start)
}

/// The intersection of two ranges.
pub(crate) fn overlap(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    let start = one.start.max(other.start);
    start..one.end.min(other.end).max(start)
}

/// An address on the first thread's stack: the kernel's AT_RANDOM bytes.
fn on_first_stack() -> usize {
    static ADDRESS: OnceLock<usize> = OnceLock::new();
    // SAFETY: only reads a value of the auxiliary vector.
    *ADDRESS.get_or_init(|| unsafe { libc::getauxval(libc::AT_RANDOM) } as usize)
}

/// Checks that all of a range is mapped, may be read and, if asked, written.
pub(crate) fn check(start: usize, len_bytes: usize, write: bool) -> Result<(), MrError> {
    check_and_visit(start, len_bytes, write, |_| ())
}

/// Checks a range like [`check`] and calls `seen` for every mapping. Without a list of mappings from the
/// kernel it calls `seen` for none.
fn check_and_visit(
    start: usize,
    len_bytes: usize,
    write: bool,
    mut seen: impl FnMut(&MapsEntry),
) -> Result<(), MrError> {
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

/// Goes from mapping to mapping; `next` returns the one that holds an address.
fn walk(
    range: &Range<usize>,
    write: bool,
    seen: &mut impl FnMut(&MapsEntry),
    mut next: impl FnMut(usize) -> Option<MapsEntry>,
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

/// Queries the kernel for one mapping after another; `None` if the kernel does not know the request.
fn by_query(
    maps: &File,
    range: &Range<usize>,
    write: bool,
    seen: &mut impl FnMut(&MapsEntry),
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
/// If no mapping holds the address, the query returns the next one above.
const QUERY_THIS_OR_NEXT: u64 = 0x10;
const VMA_READABLE: u64 = 1;
const VMA_WRITABLE: u64 = 2;
const VMA_EXECUTABLE: u64 = 4;
const VMA_SHARED: u64 = 8;

/// The mapping that holds an address; ENOENT if there is none.
fn query(maps: &File, at: usize, flags: u64) -> io::Result<MapsEntry> {
    let size = size_of::<ProcmapQuery>() as u64;
    let mut query = ProcmapQuery { size, query_flags: flags, query_addr: at as u64, ..ProcmapQuery::default() };
    // SAFETY: the request reads and writes one structure of the given size.
    let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &mut query) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(MapsEntry {
        range: query.vma_start as usize..query.vma_end as usize,
        readable: query.vma_flags & VMA_READABLE != 0,
        writable: query.vma_flags & VMA_WRITABLE != 0,
        executable: query.vma_flags & VMA_EXECUTABLE != 0,
        shared: query.vma_flags & VMA_SHARED != 0,
        file: InodeId::new(query.dev_major, query.dev_minor, query.inode),
        offset: query.vma_offset,
        ordinary: query.vma_page_size == crate::region::page_bytes() as u64,
    })
}

/// Reads the list of mappings, which is in ascending order.
fn by_text(
    maps: impl BufRead,
    range: &Range<usize>,
    write: bool,
    seen: &mut impl FnMut(&MapsEntry),
) -> io::Result<Result<(), MrError>> {
    let mut lines = maps.lines();
    let mut failed = None;
    let result = walk(range, write, seen, |at| {
        for line in lines.by_ref() {
            match line.and_then(|line| parse(line.as_bytes()).ok_or(io::ErrorKind::InvalidData.into())) {
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
fn parse(line: &[u8]) -> Option<MapsEntry> {
    let mut words = words(line);
    let mut word = || core::str::from_utf8(words.next()?).ok();
    let (start, end) = word()?.split_once('-')?;
    let rights = word()?.as_bytes();
    let offset = word()?;
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(MapsEntry {
        range: number(start)? as usize..number(end)? as usize,
        readable: rights.first() == Some(&b'r'),
        writable: rights.get(1) == Some(&b'w'),
        executable: rights.get(2) == Some(&b'x'),
        shared: rights.get(3) == Some(&b's'),
        file: InodeId::new(number(major)? as u32, number(minor)? as u32, inode.parse().ok()?),
        offset: number(offset)?,
        // Pages of another size always have a file behind them.
        ordinary: true,
    })
}

/// The name of a mapping, which follows the five words about it; empty if there is none.
fn name(line: &[u8]) -> &[u8] {
    let inode = words(line).nth(4);
    let end = inode.map_or(line.len(), |word| word.as_ptr().addr() + word.len() - line.as_ptr().addr());
    line[end..].trim_ascii()
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
}

/// Checks a range for holes. An asynchronous `msync` only walks the mappings.
fn by_msync(range: Range<usize>) -> Result<(), MrError> {
    let page = crate::region::page_bytes();
    let start = range.start / page * page;
    let first = core::ptr::without_provenance_mut(start);
    // SAFETY: MS_ASYNC changes nothing, whatever the range.
    match unsafe { libc::msync(first, range.end - start, libc::MS_ASYNC) } {
        0 => Ok(()),
        _ => Err(MrError::Unmapped),
    }
}

#[cfg(test)]
mod tests;

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
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use crate::error::MrError;

/// Names a file for as long as it exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FileId {
    /// The major number in the upper half, the minor number in the lower.
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl FileId {
    pub(crate) fn new(major: u32, minor: u32, inode: u64) -> FileId {
        FileId { device: u64::from(major) << 32 | u64::from(minor), inode }
    }
}

/// One mapping of the process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    pub(crate) range: Range<usize>,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    pub(crate) shared: bool,
    /// The device and the inode of the file behind it; zeros if there is none.
    pub(crate) file: FileId,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// Whether its pages have the ordinary size.
    ordinary: bool,
}

impl Mapping {
    /// What the program may do with its bytes, as mprotect(2) takes it.
    pub(crate) fn rights(&self) -> libc::c_int {
        let right = |has: bool, right: libc::c_int| if has { right } else { libc::PROT_NONE };
        right(self.readable, libc::PROT_READ)
            | right(self.writable, libc::PROT_WRITE)
            | right(self.executable, libc::PROT_EXEC)
    }

    /// The part of it that lies in a range, and where in the file that part begins.
    pub(crate) fn part(&self, range: &Range<usize>) -> (Range<usize>, u64) {
        let part = overlap(&self.range, range);
        let offset = self.offset + (part.start.saturating_sub(self.range.start)) as u64;
        (part, offset)
    }

    /// Whether it is readable and writable memory of this process alone, with nothing behind
    /// it, and not the first stack.
    fn is_plain(&self) -> bool {
        let rights = self.readable && self.writable && !self.executable;
        let anonymous = !self.shared && self.file.inode == 0 && self.ordinary;
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

/// Shows the mappings that a range touches, in ascending order; none if the kernel does not tell. Allocates nothing:
/// the program's allocator may have called us.
pub(crate) fn visit(range: &Range<usize>, mut seen: impl FnMut(&Mapping)) {
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

/// Shows every mapping of the process and its name. Allocates nothing, either.
pub(crate) fn visit_all(seen: impl FnMut(&Mapping, &[u8])) {
    if let Ok(maps) = File::open(MAPS) {
        visit_lines(&maps, seen);
    }
}

const MAPS: &str = "/proc/self/maps";
/// A name is cut where a line would be longer.
const LINE_BYTES: usize = 8192;

fn visit_lines(mut maps: impl Read, mut seen: impl FnMut(&Mapping, &[u8])) {
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
        // What is left of a line too long for the buffer does not parse.
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
        file: FileId::new(query.dev_major, query.dev_minor, query.inode),
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
fn parse(line: &[u8]) -> Option<Mapping> {
    let mut words = words(line);
    let mut word = || core::str::from_utf8(words.next()?).ok();
    let (start, end) = word()?.split_once('-')?;
    let rights = word()?.as_bytes();
    let offset = word()?;
    let (major, minor) = word()?.split_once(':')?;
    let inode = word()?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Mapping {
        range: number(start)? as usize..number(end)? as usize,
        readable: rights.first() == Some(&b'r'),
        writable: rights.get(1) == Some(&b'w'),
        executable: rights.get(2) == Some(&b'x'),
        shared: rights.get(3) == Some(&b's'),
        file: FileId::new(number(major)? as u32, number(minor)? as u32, inode.parse().ok()?),
        offset: number(offset)?,
        // Huge pages have a file behind them.
        ordinary: true,
    })
}

/// What a line says of a mapping behind the five words about it; empty if it has no name.
fn name(line: &[u8]) -> &[u8] {
    let inode = words(line).nth(4);
    let end = inode.map_or(line.len(), |word| word.as_ptr().addr() + word.len() - line.as_ptr().addr());
    line[end..].trim_ascii()
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty())
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

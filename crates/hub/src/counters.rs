//! Counters of one process, in a page that the hub can read.
//!
//! A client makes a [`CounterPage`] with names that it chooses, and adds to its cells
//! (plain atomics, no system call). It gives the page's descriptor to the hub when it
//! attaches. For a status request the hub reads a [`Snapshot`]. It copies the
//! whole page first and checks the copy, as the client may be hostile or dying.
//!
//! The page is a memfd whose size is sealed. Layout, all integers in native order:
//!
//! ```text
//!   0        8       12        16                16 + names_len, rounded up to 64
//!   +--------+-------+---------+------------------+---------+---------+----
//!   | magic  | cells | names_len | names, each ends | cell 0  | cell 1  | ...
//!   |        | (u32) | (u32)   | with a line feed |  (u64)  |  (u64)  |
//!   +--------+-------+---------+------------------+---------+---------+----
//! ```
//!
//! Outside this module: it interprets no name.

mod mapping;
#[cfg(test)]
mod tests;
mod text;

use mapping::PageMapping;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

/// Largest page that is made or accepted.
pub const MAX_PAGE_BYTES: usize = 64 << 10;

const MAGIC: u64 = u64::from_ne_bytes(*b"LAcount1");
const HEADER_BYTES: usize = 16;
const CELL_BYTES: usize = size_of::<u64>();
/// The first cell starts on a cache line of its own.
const CELL_ALIGN: usize = 64;

/// A page of named counters that this process writes and the hub reads.
///
/// ```
/// use std::sync::atomic::Ordering::Relaxed;
/// let page = longarm_hub::counters::CounterPage::create(&["packets_sent", "packets_received"])?;
/// page.cell(0).fetch_add(3, Relaxed);
/// assert_eq!(page.snapshot()?.get("packets_sent"), Some(3));
/// # Ok::<(), longarm_hub::counters::PageError>(())
/// ```
#[derive(Debug)]
pub struct CounterPage {
    /// `None` if a limit forbids a file of that size: then only this process sees the page.
    memfd: Option<OwnedFd>,
    mapping: PageMapping,
    cells_at: usize,
    cells: usize,
}

impl CounterPage {
    /// Makes a page with one cell for each name, all zero.
    ///
    /// # Errors
    /// [`PageError::Name`] if a name is empty or holds a control character,
    /// [`PageError::TooLarge`] if the page would exceed [`MAX_PAGE_BYTES`],
    /// [`PageError::System`] if the system refuses the memory.
    pub fn create(names: &[&str]) -> Result<CounterPage, PageError> {
        let header = header(names)?;
        let cells_at = header.len();
        let len_bytes = cells_at + names.len() * CELL_BYTES;
        if len_bytes > MAX_PAGE_BYTES {
            return Err(PageError::TooLarge { len_bytes });
        }
        let memfd = match sealed_memfd(&header, len_bytes) {
            Ok(memfd) => Some(memfd),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                log::warn!(
                    "the hub cannot show this process's counters: a limit on file sizes (`ulimit -f`) forbids it"
                );
                None
            }
            Err(error) => return Err(PageError::System(error)),
        };
        let mapping =
            PageMapping::new(memfd.as_ref().map(|memfd| memfd.as_fd()), len_bytes).map_err(PageError::System)?;
        Ok(CounterPage { memfd, mapping, cells_at, cells: names.len() })
    }

    /// The counter of the name with this index, for any thread.
    ///
    /// # Panics
    /// If there are fewer names.
    pub fn cell(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.cells, "cell {index} of {}", self.cells);
        self.mapping.cell(self.cells_at + index * CELL_BYTES)
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.cells
    }

    /// Whether the page has no cell.
    pub fn is_empty(&self) -> bool {
        self.cells == 0
    }

    /// The values as the hub reads them.
    ///
    /// # Errors
    /// As [`Snapshot::read`]; `Malformed` if the page has no file.
    pub fn snapshot(&self) -> Result<Snapshot, PageError> {
        Snapshot::read(self.file().ok_or(PageError::Malformed { what: "it has no file" })?)
    }

    /// The page's file, for the hub; `None` if a limit on file sizes forbids it.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.memfd.as_ref().map(|memfd| memfd.as_fd())
    }
}

/// The values of a page. Each is read atomically, but not all of them together.
///
/// Serialized, it is a map from name to value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot(Vec<(String, u64)>);

impl Snapshot {
    /// Copies another process's page, and checks the copy.
    ///
    /// Never blocks and never faults, for any descriptor: it reads only memfds that cannot
    /// shrink.
    ///
    /// # Errors
    /// [`PageError::Malformed`] if it is not a counter page, [`PageError::System`] if it
    /// cannot be read.
    pub fn read(memfd: BorrowedFd<'_>) -> Result<Snapshot, PageError> {
        Snapshot::decode(&copy_of_page(memfd)?)
    }

    /// Reads a page's bytes.
    ///
    /// # Errors
    /// [`PageError::Malformed`] if they are not a counter page.
    pub fn decode(page: &[u8]) -> Result<Snapshot, PageError> {
        let malformed = |what| PageError::Malformed { what };
        let magic = u64_at(page, 0).ok_or(malformed("it is too short"))?;
        if magic != MAGIC {
            return Err(malformed("it has another magic number"));
        }
        let cells = u32_at(page, 8).ok_or(malformed("it is too short"))?;
        let names_len = u32_at(page, 12).ok_or(malformed("it is too short"))?;
        let names_end = HEADER_BYTES.checked_add(names_len).ok_or(malformed("its names are too long"))?;
        let names = page.get(HEADER_BYTES..names_end).ok_or(malformed("its names are too long"))?;
        let names = std::str::from_utf8(names).map_err(|_| malformed("its names are not text"))?;
        if names.lines().count() != cells {
            return Err(malformed("it has not as many names as cells"));
        }
        let cells_at = names_end.next_multiple_of(CELL_ALIGN);
        let value = |index| u64_at(page, cells_at + index * CELL_BYTES);
        let pairs = names.lines().enumerate().map(|(i, name)| Some((printable(name), value(i)?)));
        Ok(Snapshot(pairs.collect::<Option<_>>().ok_or(malformed("it is too short"))?))
    }

    /// Name and value of each counter, in the order of the page.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// The value of one counter.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }
}

/// The reason why a counter page could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The page cannot hold the name.
    #[error("{name:?} cannot be a counter's name: names are not empty and have no control characters")]
    Name {
        /// The name.
        name: String,
    },
    /// Too many names, or too long ones.
    #[error("a counter page of {len_bytes} bytes is too large, the most is {MAX_PAGE_BYTES}")]
    TooLarge {
        /// The size that it would need.
        len_bytes: usize,
    },
    /// The other process's page is malformed.
    #[error("not a counter page: {what}")]
    Malformed {
        /// The fault.
        what: &'static str,
    },
    /// The system refused.
    #[error("cannot share a counter page: {0}")]
    System(#[source] io::Error),
}

/// The page up to the first cell.
fn header(names: &[&str]) -> Result<Vec<u8>, PageError> {
    if let Some(name) = names.iter().find(|n| n.is_empty() || n.contains(char::is_control)) {
        return Err(PageError::Name { name: (*name).to_owned() });
    }
    let text: String = names.iter().flat_map(|name| [name, "\n"]).collect();
    let too_large = |_| PageError::TooLarge { len_bytes: text.len() };
    let mut header = Vec::from(MAGIC.to_ne_bytes());
    header.extend(u32::try_from(names.len()).map_err(too_large)?.to_ne_bytes());
    header.extend(u32::try_from(text.len()).map_err(too_large)?.to_ne_bytes());
    header.extend(text.as_bytes());
    header.resize(header.len().next_multiple_of(CELL_ALIGN), 0);
    Ok(header)
}

/// A memfd with `header` at its start, sealed at a size of `len_bytes`.
fn sealed_memfd(header: &[u8], len_bytes: usize) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Beyond the limit the kernel would refuse and also send SIGXFSZ.
    if getrlimit(Resource::Fsize).current.is_some_and(|most_bytes| most_bytes < len_bytes as u64) {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let memfd = guest::high(rustix::fs::memfd_create("longarm-counters", flags)?);
    rustix::fs::ftruncate(&memfd, len_bytes as u64)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&memfd, seals)?;
    let written = rustix::io::pwrite(&memfd, header, 0)?;
    if written != header.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    Ok(memfd)
}

/// All bytes of another process's memfd. The check of the seals comes first: only memory-backed
/// files have seals, so reading cannot block or call that process.
fn copy_of_page(memfd: BorrowedFd<'_>) -> Result<Vec<u8>, PageError> {
    let malformed = |what| PageError::Malformed { what };
    let seals = rustix::fs::fcntl_get_seals(memfd).map_err(|_| malformed("it is not a memfd"))?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(malformed("its size is not sealed"));
    }
    let system = |error: rustix::io::Errno| PageError::System(error.into());
    let len_bytes = rustix::fs::fstat(memfd).map_err(system)?.st_size;
    let len_bytes = usize::try_from(len_bytes).unwrap_or(usize::MAX);
    if len_bytes > MAX_PAGE_BYTES {
        return Err(PageError::TooLarge { len_bytes });
    }
    let mut page = vec![0; len_bytes];
    let read = rustix::io::pread(memfd, &mut page, 0).map_err(system)?;
    page.truncate(read);
    Ok(page)
}

fn u64_at(page: &[u8], at: usize) -> Option<u64> {
    let bytes = page.get(at..at.checked_add(8)?)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

fn u32_at(page: &[u8], at: usize) -> Option<usize> {
    let bytes = page.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_ne_bytes(bytes.try_into().ok()?)).ok()
}

/// A name that is safe to show on a terminal.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

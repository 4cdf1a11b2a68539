//! Whether pages can move without anybody noticing.
//!
//! A program sees what it would see with a network card only if nobody holds the pages that move, and nobody writes to
//! them meanwhile. So much can be proven when the program has one thread: every other thread is one of ours, no
//! descriptor is open that could hold pages, and no key leads to them.

use std::fs;
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::advice;
use super::holders;

/// Which memory of the program is adopted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Adoption {
    /// None.
    #[default]
    Never,
    /// That of which it is proven that the program cannot tell.
    Safe,
    /// All that can be moved. A program that uses io_uring, direct I/O, threads or `fork` beside it may read wrong
    /// bytes.
    Always,
}

/// Why a region was not adopted, or that it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Verdict {
    /// It was: peers on this host map it.
    Adopted,
    /// It is not private memory of whole pages: a file, a stack, shared, read-only, less than a page, on-demand.
    Unsuitable,
    /// The program has threads that may write while pages move.
    Threads,
    /// A descriptor is open that may hold pages: io_uring, a GPU, VFIO, AF_XDP.
    Holders,
    /// Another key leads to the same pages.
    Registered,
    /// The calls of the program that tell what becomes of the pages do not pass through this library.
    Unwatched,
    /// The program has told the kernel something about the pages that would be lost (madvise(2)).
    Advised,
    /// The process has forked while memory was adopted.
    Forked,
    /// The kernel refused.
    Refused,
}

impl Verdict {
    /// All of them, in order.
    pub const ALL: [Verdict; 9] = [
        Verdict::Adopted,
        Verdict::Unsuitable,
        Verdict::Threads,
        Verdict::Holders,
        Verdict::Registered,
        Verdict::Unwatched,
        Verdict::Advised,
        Verdict::Forked,
        Verdict::Refused,
    ];

    /// In a few words, for people.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Adopted => "moved to shared pages",
            Verdict::Unsuitable => "not whole private pages",
            Verdict::Threads => "the program has threads",
            Verdict::Holders => "a descriptor may hold its pages (io_uring, a GPU, VFIO, AF_XDP)",
            Verdict::Registered => "another key leads to the same pages",
            Verdict::Unwatched => "the program's madvise(2) and fork(2) do not pass through this library",
            Verdict::Advised => "madvise(2) was called on it",
            Verdict::Forked => "the process has forked while memory was adopted",
            Verdict::Refused => "the kernel refused",
        }
    }

    /// How many regions of this process it was said of.
    pub fn count(self) -> u64 {
        COUNTS[self as usize].load(Relaxed)
    }

    pub(super) fn tell(self, range: &Range<usize>) {
        let first = COUNTS[self as usize].fetch_add(1, Relaxed) == 0;
        let level = if first { log::Level::Info } else { log::Level::Debug };
        let way = if self == Verdict::Adopted { "peers on this host map it" } else { "it stays where it is" };
        log::log!(level, "{} bytes registered at {:#x}, {way}: {}", range.len(), range.start, self.text());
    }
}

static COUNTS: [AtomicU64; Verdict::ALL.len()] = [const { AtomicU64::new(0) }; Verdict::ALL.len()];
static WATCHED: AtomicBool = AtomicBool::new(false);

/// From now on every `madvise` of the program passes through [`advise`](crate::advise).
pub fn set_advice_watched() {
    WATCHED.store(true, Release);
}

/// Whether pages can move into shared memory now, and nobody can tell.
pub(super) fn may_move(range: &Range<usize>) -> Result<(), Verdict> {
    if !WATCHED.load(Relaxed) {
        return Err(Verdict::Unwatched);
    }
    if advice::was_given(range) {
        return Err(Verdict::Advised);
    }
    may_move_back()
}

/// Whether they can move at all.
pub(super) fn may_move_back() -> Result<(), Verdict> {
    if !is_alone() {
        return Err(Verdict::Threads);
    }
    if holders::may_exist(false) {
        return Err(Verdict::Holders);
    }
    Ok(())
}

/// Whether nobody but this thread runs in this address space, and threads of ours, which write through keys alone.
pub(super) fn is_alone() -> bool {
    if !guest::settled() {
        return false;
    }
    let own = own_thread();
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return false };
    let mut known = tasks.map(|task| {
        let name = task.ok()?.file_name();
        let tid: i32 = name.to_str()?.parse().ok()?;
        Some(tid == own || guest::is_ours(tid))
    });
    known.all(|known| known == Some(true)) && !holders::shares_memory_with_relatives()
}

fn own_thread() -> i32 {
    // SAFETY: asks for a number.
    unsafe { libc::gettid() }
}

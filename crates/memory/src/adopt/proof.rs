//! Proves that pages can move without the program noticing.
//!
//! A program sees the same as with a network card only if nobody holds the moving pages and nobody writes to
//! them meanwhile. That can be proven when the program has one thread. Then every other thread belongs to
//! this library, no descriptor is open that could hold pages, and no key covers them.

use std::fs;
use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use super::advice;
use super::holders;

/// Selects the memory of the program that is adopted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Adoption {
    /// None.
    #[default]
    Never,
    /// Only memory for which it is proven that the program cannot notice.
    Safe,
    /// All memory that can be moved. A program that also uses io_uring, direct I/O, threads or `fork` may
    /// read wrong bytes.
    Always,
}

/// The result of an attempt to adopt a region: success, or the reason why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum AdoptionResult {
    /// The region was adopted: peers on this host map it.
    Adopted,
    /// The region is not private memory of whole pages: it is a file, a stack, shared, read-only, less than a
    /// page, or on-demand.
    Unsuitable,
    /// The program has threads that may write while pages move.
    Threads,
    /// A descriptor is open that may hold pages: io_uring, a GPU, VFIO, AF_XDP.
    Holders,
    /// Another key covers the same pages.
    Registered,
    /// The program's `madvise` and `fork` calls do not pass through this library, so it would not hear of
    /// changes to the pages.
    Unwatched,
    /// The program has given the kernel advice (madvise(2)) that a move would lose.
    Advised,
    /// The process has forked while memory was adopted.
    Forked,
    /// The kernel refused.
    Refused,
}

impl AdoptionResult {
    /// All variants, in order.
    pub const ALL: [AdoptionResult; 9] = [
        AdoptionResult::Adopted,
        AdoptionResult::Unsuitable,
        AdoptionResult::Threads,
        AdoptionResult::Holders,
        AdoptionResult::Registered,
        AdoptionResult::Unwatched,
        AdoptionResult::Advised,
        AdoptionResult::Forked,
        AdoptionResult::Refused,
    ];

    /// A short description, for people.
    pub fn text(self) -> &'static str {
        match self {
            AdoptionResult::Adopted => "moved to shared pages",
            AdoptionResult::Unsuitable => "not whole private pages",
            AdoptionResult::Threads => "the program has threads",
            AdoptionResult::Holders => "a descriptor may hold its pages (io_uring, a GPU, VFIO, AF_XDP)",
            AdoptionResult::Registered => "another key covers the same pages",
            AdoptionResult::Unwatched => "the program's madvise(2) and fork(2) do not pass through this library",
            AdoptionResult::Advised => "madvise(2) was called on it",
            AdoptionResult::Forked => "the process has forked while memory was adopted",
            AdoptionResult::Refused => "the kernel refused",
        }
    }

    /// The number of regions of this process with this result.
    pub fn count(self) -> u64 {
        COUNTS[self as usize].load(Relaxed)
    }

    pub(super) fn log(self, range: &Range<usize>) {
        let first = COUNTS[self as usize].fetch_add(1, Relaxed) == 0;
        let level = if first { log::Level::Info } else { log::Level::Debug };
        let outcome =
            if self == AdoptionResult::Adopted { "peers on this host map it" } else { "it stays where it is" };
        log::log!(level, "{} bytes registered at {:#x}, {outcome}: {}", range.len(), range.start, self.text());
    }
}

static COUNTS: [AtomicU64; AdoptionResult::ALL.len()] = [const { AtomicU64::new(0) }; AdoptionResult::ALL.len()];
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Declares that every `madvise` of the program passes through [`advise`](crate::advise) from this call on.
pub fn set_advice_watched() {
    WATCHED.store(true, Release);
}

/// Checks that pages can move into shared memory now without the program noticing.
pub(super) fn may_move(range: &Range<usize>) -> Result<(), AdoptionResult> {
    if !WATCHED.load(Relaxed) {
        return Err(AdoptionResult::Unwatched);
    }
    if advice::was_given(range) {
        return Err(AdoptionResult::Advised);
    }
    may_move_back()
}

/// Checks that no thread and no descriptor of the program can interfere while pages move.
pub(super) fn may_move_back() -> Result<(), AdoptionResult> {
    if !is_alone() {
        return Err(AdoptionResult::Threads);
    }
    if holders::may_exist(false) {
        return Err(AdoptionResult::Holders);
    }
    Ok(())
}

/// True if only this thread runs in this address space, besides threads of this library, which write through
/// keys alone.
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
    // SAFETY: the call takes no arguments and cannot fail.
    unsafe { libc::gettid() }
}

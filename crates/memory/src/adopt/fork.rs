//! What `fork` does with adopted memory.
//!
//! A fork copies private pages and shares those of a memfd. So before a fork adoption is given up: the pages become
//! private where they are, and the kernel copies them for the child as it copies all others, when one of the two
//! writes to them. Nothing is copied here, and what other threads write meanwhile is before or after the fork as ever.
//!
//! Only if somebody may hold the pages (see [`holders`]), or waits on a word in them ([`waiters`]), they must stay what
//! they are. The child then gets a copy that is made before the fork, page by page. So does the kernel with
//! pages that are pinned; a store of another thread may be in it while an earlier one is not.
//!
//! ```text
//!   prepare: lock the table; give up, or copy
//!   child:   put the copies in the place of its parent's pages; forget the table; unlock
//!   parent:  drop the copies; unlock
//! ```
//!
//! In the child only system calls are made and nothing is allocated or freed.

use std::cell::UnsafeCell;
use std::io;
use std::sync::{MutexGuard, OnceLock};

use super::moves::{self, Copy, Part};
use super::{Adopted, Table, give_up, holders, lock, mapped_parts, proof, waiters};
use crate::calls;

/// What is kept from `prepare` to the handlers after the fork.
struct Forking {
    table: MutexGuard<'static, Table>,
    /// What the child must not share, and its copy if there was memory for one.
    copies: Vec<(Part, Option<Copy>)>,
}

/// Touched by the thread that holds the table's lock alone.
struct Held(UnsafeCell<Option<Forking>>);

// SAFETY: the lock that lies in it keeps threads apart; and it is given back by the thread
// that took it, or by its copy in the child.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new(None));

/// From now on forks by the C library's `fork` are taken care of.
///
/// # Errors
/// If the C library has no memory for that.
pub(super) fn watch() -> io::Result<()> {
    static DONE: OnceLock<libc::c_int> = OnceLock::new();
    let refused = *DONE.get_or_init(|| {
        // SAFETY: the handlers keep to what they may do, and live as long as the program.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) }
    });
    if refused == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(refused)) }
}

extern "C" fn prepare() {
    let table = lock();
    let shared = mapped_parts(|mapping| mapping.shared);
    let copies = if shared.is_empty() { Vec::new() } else { table.part_with(shared) };
    // SAFETY: this thread holds the lock.
    unsafe { *HELD.0.get() = Some(Forking { table, copies }) };
}

extern "C" fn in_parent() {
    // SAFETY: this thread has held the lock since `prepare`.
    drop(unsafe { (*HELD.0.get()).take() });
}

extern "C" fn in_child() {
    // SAFETY: this thread is the copy of the one that holds the lock.
    let Some(Forking { mut table, mut copies }) = (unsafe { (*HELD.0.get()).take() }) else {
        return;
    };
    for (part, copy) in &mut copies {
        let put = match copy.take() {
            // SAFETY: these are the parent's pages, and the copy has what they hold.
            Some(copy) => unsafe { copy.put(&part.pages.range) },
            None => Err(io::ErrorKind::OutOfMemory.into()),
        };
        if put.is_err() {
            take_away(part);
        }
    }
    // The allocator may be the program's own, and is left alone.
    core::mem::forget(copies);
    core::mem::forget(core::mem::replace(&mut *table, Table::new()));
    give_up::begin_anew();
}

/// There is no memory for the child's copy: it finds nothing, rather than what its parent writes.
fn take_away(part: &Part) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let (start, len_bytes) = (core::ptr::with_exposed_provenance_mut(part.pages.range.start), part.pages.range.len());
    // SAFETY: over the pages, which are the parent's.
    unsafe { calls::mmap(start, len_bytes, libc::PROT_NONE, flags, -1, 0) };
}

impl Table {
    /// Sees to it that a child will not share these pages: they become private, or it gets copies.
    fn part_with(&self, shared: Vec<Part>) -> Vec<(Part, Option<Copy>)> {
        let ranges: Vec<_> = shared.iter().map(|part| part.pages.range.clone()).collect();
        let has_threads = !proof::is_alone();
        let stay = holders::may_exist(has_threads) || (has_threads && waiters::exist(&ranges));
        if !stay {
            self.mirrors.cut_off();
        }
        let mut copies = Vec::new();
        for part in shared {
            let Some(adopted) = self.adopted.values().find(|adopted| adopted.has(&part)) else {
                copies.push((part, None));
                continue;
            };
            // SAFETY: it is mapped there so, and nobody writes to the file any more: peers are cut off.
            let parted =
                !stay && unsafe { give_up::make_private(&part.pages, part.rights, &adopted.window.fd) }.is_ok();
            if !parted {
                let copy = moves::snapshot(&part, &adopted.window.fd);
                let told = copy.inspect_err(|error| log::error!("no memory for the child of a fork: {error}"));
                copies.push((part, told.ok()));
            }
        }
        copies
    }
}

impl Adopted {
    fn has(&self, part: &Part) -> bool {
        self.window.has(part.file, part.pages.offset)
    }
}

//! The handlers of `fork` for adopted memory.
//!
//! A fork copies private pages and shares those of a memfd. So adoption is given up before a fork: the pages
//! become private where they are. The kernel then copies them for the child like all others, when one of the
//! two processes writes to them. These handlers copy nothing. A concurrent store of another thread happens
//! before or after the fork, as without adoption.
//!
//! The pages must stay shared only if a descriptor may hold them (see [`holders`]), or a thread waits on a
//! word in them ([`waiters`]). The child then gets a copy that is made before the fork, page by page. The
//! kernel does the same with pinned pages. Such a copy may contain a store of another thread and lack an
//! earlier one.
//!
//! ```text
//!   prepare: lock the table; give up, or copy
//!   child:   put the copies in the place of its parent's pages; forget the table; unlock
//!   parent:  drop the copies; unlock
//! ```
//!
//! In the child only system calls are made; nothing is allocated or freed.

use std::cell::UnsafeCell;
use std::io;
use std::sync::{MutexGuard, OnceLock};

use super::moves::{self, AdoptedPart, PageCopy};
use super::{Adopted, AdoptedTable, give_up, holders, lock, mapped_parts, proof, waiters};
use crate::calls;

/// The state that `prepare` keeps for the handlers after the fork.
struct Forking {
    table: MutexGuard<'static, AdoptedTable>,
    /// The mappings that the child must not share, each with its copy if there was memory for one.
    copies: Vec<(AdoptedPart, Option<PageCopy>)>,
}

/// Accessed only by the thread that holds the table's lock.
struct ForkCell(UnsafeCell<Option<Forking>>);

// SAFETY: only the holder of the table's lock touches the cell, and the cell keeps the guard. The guard is
// dropped by the thread that took it, or by that thread's copy in the child.
unsafe impl Sync for ForkCell {}

static FORKING: ForkCell = ForkCell(UnsafeCell::new(None));

/// Installs the handlers for the C library's `fork`, once per process.
///
/// # Errors
/// If the C library has no memory for them.
pub(super) fn watch() -> io::Result<()> {
    static DONE: OnceLock<libc::c_int> = OnceLock::new();
    let refused = *DONE.get_or_init(|| {
        // SAFETY: the handlers do only what a fork handler may do, and live as long as the program.
        unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) }
    });
    if refused == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(refused)) }
}

extern "C" fn prepare() {
    let table = lock();
    let shared = mapped_parts(|mapping| mapping.shared);
    let copies = if shared.is_empty() { Vec::new() } else { table.make_private_or_copy(shared) };
    // SAFETY: this thread holds the lock of the table.
    unsafe { *FORKING.0.get() = Some(Forking { table, copies }) };
}

extern "C" fn in_parent() {
    // SAFETY: this thread has held the lock since `prepare`.
    drop(unsafe { (*FORKING.0.get()).take() });
}

extern "C" fn in_child() {
    // SAFETY: this thread is the copy of the one that holds the lock, and the child has no other.
    let Some(Forking { mut table, mut copies }) = (unsafe { (*FORKING.0.get()).take() }) else {
        return;
    };
    for (part, copy) in &mut copies {
        let put = match copy.take() {
            // SAFETY: the child does not need the parent's pages, since the copy has the same contents.
            Some(copy) => unsafe { copy.put(&part.pages.range) },
            None => Err(io::ErrorKind::OutOfMemory.into()),
        };
        if put.is_err() {
            map_inaccessible(part);
        }
    }
    // The allocator may be the program's own, so nothing is freed here.
    core::mem::forget(copies);
    core::mem::forget(core::mem::replace(&mut *table, AdoptedTable::new()));
    give_up::reset_in_child();
}

/// Maps inaccessible pages because there is no memory for the child's copy. Otherwise the child would see its
/// parent's later writes.
fn map_inaccessible(part: &AdoptedPart) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    let (start, len_bytes) = (core::ptr::with_exposed_provenance_mut(part.pages.range.start), part.pages.range.len());
    // SAFETY: replaces the mapping of the parent's pages, which the child must not use.
    unsafe { calls::mmap(start, len_bytes, libc::PROT_NONE, flags, -1, 0) };
}

impl AdoptedTable {
    /// Makes sure that a child does not share these pages: they become private, or it gets copies.
    fn make_private_or_copy(&self, shared: Vec<AdoptedPart>) -> Vec<(AdoptedPart, Option<PageCopy>)> {
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
            // SAFETY: `part` describes the present mapping. Nobody writes to the file any more, since the
            // mirrors have cut off peers.
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
    fn has(&self, part: &AdoptedPart) -> bool {
        self.window.has(part.file, part.pages.offset)
    }
}

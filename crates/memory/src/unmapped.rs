//! Registered memory that the program unmaps before it deregisters it.
//!
//! A network card holds the pages that it was told of: it goes on to read and write them,
//! whatever becomes of the addresses. Programs rely on that, some without knowing. UCX
//! deregisters what the program has freed when it next has time for it, and frees the buffers of posted receives
//! before it destroys their queue pair. Here such an access is a fault, which would end the process.
//!
//! ```text
//!   a queue pair copies -> SIGSEGV, nothing is mapped there
//!     -> in a region that an access has pinned?  yes: a page of zeros is mapped, the copy goes on
//!                                                no:  whoever handled the signal before us
//! ```
//!
//! What is written is lost with the page, what is read is zeros. The page stays: nobody can tell
//! it from one that the program mapped there since.
//!
//! What a card does and this does not: if the program maps other memory at the same addresses
//! while the key lives, that is what the key leads to. An access to memory that the
//! program has made unreadable or read-only with mprotect(2) is a fault as before. And a program that handles
//! SIGSEGV itself, from a later moment on and for good, handles these faults as well.

use std::io;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

use crate::calls;
use crate::region::page_bytes;
use crate::table::{Chunks, is_accessed};

mod fault;

/// From now on no access of a queue pair ends this process because the program has unmapped
/// the memory. It sets a handler for SIGSEGV, which passes on what is not its own.
///
/// # Errors
/// What sigaction(2) says.
pub fn survive_unmapping() -> io::Result<()> {
    fault::handle()
}

/// How many pages were put where the program had unmapped registered memory.
pub fn unmapped_pages() -> u64 {
    PAGES.load(Relaxed)
}

static PAGES: AtomicU64 = AtomicU64::new(0);
/// The tables of all registries.
static TABLES: AtomicPtr<Link> = AtomicPtr::new(ptr::null_mut());
/// How many threads are looking through them.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// A place for a table in the list. It is used again, and never freed: a handler cannot wait for a lock.
struct Link {
    table: AtomicPtr<Chunks>,
    next: *const Link,
}

/// A table is in the list until this is dropped.
pub(crate) struct Listed(&'static Link);

// SAFETY: a link changes by atomics alone; what follows it was set before it was shared.
unsafe impl Send for Listed {}
// SAFETY: as for Send.
unsafe impl Sync for Listed {}

impl Listed {
    /// Enters a table.
    ///
    /// # Safety
    /// The chunks must stay where they are until this is dropped.
    pub(crate) unsafe fn new(chunks: &Chunks) -> Listed {
        let table = ptr::from_ref(chunks).cast_mut();
        let is_free = |link: &&Link| link.table.compare_exchange(ptr::null_mut(), table, SeqCst, Relaxed).is_ok();
        Listed(links().find(is_free).unwrap_or_else(|| append(table)))
    }
}

impl Drop for Listed {
    /// No handler looks at the table any more when this returns.
    fn drop(&mut self) {
        self.0.table.store(ptr::null_mut(), SeqCst);
        while LOOKING.load(SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}

/// For the child of a fork, which has one thread.
extern "C" fn nobody_looks() {
    LOOKING.store(0, SeqCst);
}

fn append(table: *mut Chunks) -> &'static Link {
    let link = Box::leak(Box::new(Link { table: AtomicPtr::new(table), next: ptr::null() }));
    let mut first = TABLES.load(SeqCst);
    loop {
        link.next = first;
        match TABLES.compare_exchange(first, link, SeqCst, SeqCst) {
            Ok(_) => return link,
            Err(other) => first = other,
        }
    }
}

fn links() -> impl Iterator<Item = &'static Link> {
    // SAFETY: links are never freed, and complete before they are in the list.
    let follow = |link: *const Link| unsafe { link.as_ref() };
    std::iter::successors(follow(TABLES.load(SeqCst)), move |link| follow(link.next))
}

/// Puts a page where nothing is mapped, if an access to registered memory is under way there.
/// Makes no call that a signal handler may not make.
fn put_page(address: usize) -> bool {
    LOOKING.fetch_add(1, SeqCst);
    let tables = links().map(|link| link.table.load(SeqCst));
    // SAFETY: who takes a table from the list waits for us before it goes.
    let ours = tables.filter_map(|table| unsafe { table.as_ref() }).any(|chunks| is_accessed(chunks, address));
    LOOKING.fetch_sub(1, SeqCst);
    ours && map_zeros(address)
}

fn map_zeros(address: usize) -> bool {
    let page = page_bytes();
    let start = ptr::with_exposed_provenance_mut(address - address % page);
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping where there is none.
    let mapped = unsafe { calls::mmap(start, page, rights, flags, -1, 0) };
    if mapped == start {
        PAGES.fetch_add(1, Relaxed);
        return true;
    }
    if mapped != libc::MAP_FAILED {
        // A kernel older than 4.17 took the address for a wish.
        // SAFETY: our own mapping, which nobody knows.
        unsafe { calls::munmap(mapped, page) };
        return false;
    }
    // Another thread was quicker, with whatever it mapped there: the access tries again.
    io::Error::last_os_error().raw_os_error() == Some(libc::EEXIST)
}

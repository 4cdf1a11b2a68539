//! Registered memory that the program unmaps before it deregisters it.
//!
//! A network card holds the pages of registered memory. It continues to read and write them when the
//! addresses are unmapped or mapped again. Programs rely on that, some of them unknowingly. UCX deregisters
//! freed memory later, at its next opportunity, and frees the buffers of posted receives before it destroys
//! their queue pair. In this library such an access is a fault, which would end the process.
//!
//! ```text
//!   a queue pair copies -> SIGSEGV, nothing is mapped there
//!     -> in a region that an access has pinned?  yes: a page of zeros is mapped, the copy goes on
//!                                                no:  the handler that was set before
//! ```
//!
//! The same holds for a mapped file that somebody has cut (SIGBUS): a page of zeros takes the place of each page beyond the
//! end that an access needs, in this process only.
//!
//! Writes are lost with the page, reads return zeros. The page stays: it cannot be distinguished from one
//! that the program has mapped there since.
//!
//! Differences from a card: if the program maps other memory at the same addresses while the key lives, the
//! key leads to that memory. An access to memory that the program has made unreadable or read-only with
//! mprotect(2) remains a fault. And if a program installs its own handler of SIGSEGV or SIGBUS later and keeps it, that
//! handler gets these faults as well.

use std::io;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};

use crate::calls;
use crate::region::page_bytes;
use crate::table::{Chunks, is_accessed};

mod fault;

/// Installs a handler for SIGSEGV and SIGBUS. Then a queue pair's access does not end this process where the program has
/// unmapped the memory. The same holds where somebody has cut the file that is mapped. The handler passes all other
/// faults on.
///
/// # Errors
/// The error of sigaction(2).
pub fn survive_unmapping() -> io::Result<()> {
    fault::handle()
}

/// The number of pages that were put where the program had unmapped registered memory.
pub fn unmapped_pages() -> u64 {
    PAGES.load(Relaxed)
}

static PAGES: AtomicU64 = AtomicU64::new(0);
/// The list of the tables of all registries.
static TABLES: AtomicPtr<TableNode> = AtomicPtr::new(ptr::null_mut());
/// The number of threads that walk the list.
static READERS: AtomicUsize = AtomicUsize::new(0);
/// A thread replaces a page.
static REPLACING: AtomicBool = AtomicBool::new(false);

/// A list node for a table. It is reused, and never freed: a handler cannot wait for a lock.
struct TableNode {
    table: AtomicPtr<Chunks>,
    next: *const TableNode,
}

/// Keeps a table in the list until it is dropped.
pub(crate) struct ListedTable(&'static TableNode);

// SAFETY: a node changes only by atomics; `next` was set before the node was shared.
unsafe impl Send for ListedTable {}
// SAFETY: shared use is sound too: a node changes only by atomics, and `next` was set before the node was
// shared.
unsafe impl Sync for ListedTable {}

impl ListedTable {
    /// Adds a table to the list.
    ///
    /// # Safety
    /// The chunks must not move or go before this value is dropped.
    pub(crate) unsafe fn new(chunks: &Chunks) -> ListedTable {
        let table = ptr::from_ref(chunks).cast_mut();
        let is_free = |node: &&TableNode| node.table.compare_exchange(ptr::null_mut(), table, SeqCst, Relaxed).is_ok();
        ListedTable(nodes().find(is_free).unwrap_or_else(|| append(table)))
    }
}

impl Drop for ListedTable {
    /// On return no handler reads the table any more.
    fn drop(&mut self) {
        self.0.table.store(ptr::null_mut(), SeqCst);
        while READERS.load(SeqCst) > 0 {
            std::thread::yield_now();
        }
    }
}

/// For the child of a fork, which has one thread.
extern "C" fn reset_readers() {
    READERS.store(0, SeqCst);
    REPLACING.store(false, SeqCst);
}

fn append(table: *mut Chunks) -> &'static TableNode {
    let node = Box::leak(Box::new(TableNode { table: AtomicPtr::new(table), next: ptr::null() }));
    let mut first = TABLES.load(SeqCst);
    loop {
        node.next = first;
        match TABLES.compare_exchange(first, node, SeqCst, SeqCst) {
            Ok(_) => return node,
            Err(other) => first = other,
        }
    }
}

fn nodes() -> impl Iterator<Item = &'static TableNode> {
    // SAFETY: nodes are never freed, and complete before they are in the list.
    let follow = |node: *const TableNode| unsafe { node.as_ref() };
    std::iter::successors(follow(TABLES.load(SeqCst)), move |node| follow(node.next))
}

/// Puts a page where nothing is mapped, if an access to registered memory is in progress there. Makes only
/// calls that a signal handler may make.
fn put_page(address: usize) -> bool {
    is_in_use(address) && map_zeros(address)
}

/// Puts a page in the place of one that has no contents, if an access to registered memory is in progress there.
/// Makes only calls that a signal handler may make.
fn replace_page(address: usize) -> bool {
    if !is_in_use(address) {
        return false;
    }
    while REPLACING.swap(true, SeqCst) {
        std::hint::spin_loop();
    }
    // Another thread may have met the same page.
    let replaced = has_contents(address) || replace_by_zeros(address);
    REPLACING.store(false, SeqCst);
    replaced
}

/// True if an access to registered memory is in progress at that address.
fn is_in_use(address: usize) -> bool {
    READERS.fetch_add(1, SeqCst);
    let tables = nodes().map(|node| node.table.load(SeqCst));
    // SAFETY: `ListedTable::drop` takes a table from the list and then waits until `READERS` is zero.
    let ours = tables.filter_map(|table| unsafe { table.as_ref() }).any(|chunks| is_accessed(chunks, address));
    READERS.fetch_sub(1, SeqCst);
    ours
}

/// True if the kernel can read the byte.
fn has_contents(address: usize) -> bool {
    let mut byte = 0u8;
    let here = libc::iovec { iov_base: ptr::from_mut(&mut byte).cast(), iov_len: 1 };
    let there = libc::iovec { iov_base: ptr::with_exposed_provenance_mut(address), iov_len: 1 };
    // SAFETY: the kernel checks both ranges; the first is a byte of this function.
    unsafe { calls::process_vm_readv(libc::getpid(), &here, &there) == 1 }
}

fn replace_by_zeros(address: usize) -> bool {
    let page = page_bytes();
    let start = ptr::with_exposed_provenance_mut(address - address % page);
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the page has no contents that could be lost, and an access to registered memory holds its range.
    let mapped = unsafe { calls::mmap(start, page, rights, flags, -1, 0) };
    if mapped == start {
        PAGES.fetch_add(1, Relaxed);
    }
    mapped == start
}

fn map_zeros(address: usize) -> bool {
    let page = page_bytes();
    let start = ptr::with_exposed_provenance_mut(address - address % page);
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: MAP_FIXED_NOREPLACE makes a new mapping only where there is none.
    let mapped = unsafe { calls::mmap(start, page, rights, flags, -1, 0) };
    if mapped == start {
        PAGES.fetch_add(1, Relaxed);
        return true;
    }
    if mapped != libc::MAP_FAILED {
        // A kernel older than 4.17 took the address for a hint.
        // SAFETY: the new mapping, whose address nobody else has.
        unsafe { calls::munmap(mapped, page) };
        return false;
    }
    // If another thread has mapped memory there first, the access is retried.
    io::Error::last_os_error().raw_os_error() == Some(libc::EEXIST)
}

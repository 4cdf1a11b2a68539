//! Fork handling: a child must not use its parent's connections.
//!
//! A child has copies of this library's memory and descriptors, but none of its threads. Two things follow:
//!
//! * It must not continue its parent's work: it would steal the parent's packets and wait for locks that no
//!   thread will release. [`generation`] tells parent and child apart, at the cost of one relaxed load.
//! * It must not keep the parent's sockets: a child that outlives its parent would keep the UDP port taken
//!   and the hub's connection open. So the child closes the sockets that were registered by [`close_in_children`].
//!   Their numbers stay taken by an eventfd, because the child's copies of this library's objects may close
//!   them later.
//!
//! A child that is made without the C library's `fork` (`clone`, `_Fork`) runs no handler. It still has
//! another generation: the number lies in a page that the kernel clears for every child (`MADV_WIPEONFORK`).
//! It closes the sockets when it opens the device itself.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, Once, PoisonError};

/// A page for the generation alone, since the kernel clears whole pages.
#[repr(C, align(4096))]
struct GenerationPage {
    /// Zero in a child made without handlers, until it calls [`watch`].
    generation: AtomicU32,
}

static PAGE: GenerationPage = GenerationPage { generation: AtomicU32::new(0) };
/// The number of detected forks between the first process that called [`watch`] and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The largest number of sockets that a child closes.
const MOST: usize = 2048;
/// The number of a free entry.
const NONE: i32 = -1;

/// A socket that a child closes. The cookie shows that the number has not been reused for another file.
struct SocketEntry {
    number: AtomicI32,
    cookie: AtomicU64,
}

static ENTRIES: [SocketEntry; MOST] =
    [const { SocketEntry { number: AtomicI32::new(NONE), cookie: AtomicU64::new(0) } }; MOST];
/// The index of the first entry that was never used.
static END: AtomicUsize = AtomicUsize::new(0);
static WRITER: Mutex<()> = Mutex::new(());

/// A number that differs between this process and its parent and children. Never 0 after [`watch`], except in
/// a child made without handlers.
#[inline]
#[must_use]
pub fn generation() -> u32 {
    PAGE.generation.load(Relaxed)
}

/// Detects every later fork, and also that this process is itself a child made without handlers.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(begin);
    if generation() == 0 {
        in_child();
    }
}

fn begin() {
    PAGE.generation.store(1, Relaxed);
    // A system call, because this library's own `madvise` would record the page as one with the program's
    // advice.
    let page = (&raw const PAGE).cast_mut();
    // SAFETY: the page belongs to this module and changes only through atomics. If the kernel refuses, the
    // handler still works.
    unsafe { libc::syscall(libc::SYS_madvise, page, size_of::<GenerationPage>(), libc::MADV_WIPEONFORK) };
    // SAFETY: the handler uses only atomics and system calls, which are allowed in a child of a process with
    // many threads. It lives as long as the program.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Registers a socket that children must close: they cannot use it. Descriptors of other kinds are ignored.
pub fn close_in_children(socket: impl AsFd) {
    let socket = socket.as_fd();
    let Some(cookie) = cookie(socket.as_raw_fd()) else { return };
    watch();
    let _writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(entry) = free_entry(socket) else { return };
    entry.number.store(NONE, Release);
    entry.cookie.store(cookie, Release);
    entry.number.store(socket.as_raw_fd(), Release);
}

/// An entry to overwrite: one with the same number, which was another socket's, or a free one.
fn free_entry(socket: BorrowedFd<'_>) -> Option<&'static SocketEntry> {
    let end = END.load(Acquire);
    let used = &ENTRIES[..end];
    let is = |number: i32| used.iter().find(move |entry| entry.number.load(Acquire) == number);
    if let Some(entry) = is(socket.as_raw_fd()).or_else(|| is(NONE)) {
        return Some(entry);
    }
    if end == MOST {
        return used.iter().find(|entry| !is_open(entry));
    }
    END.store(end + 1, Release);
    ENTRIES.get(end)
}

fn is_open(entry: &SocketEntry) -> bool {
    cookie(entry.number.load(Acquire)) == Some(entry.cookie.load(Acquire))
}

/// The kernel's unique number for a socket; `None` for other files.
fn cookie(number: i32) -> Option<u64> {
    let mut cookie = 0u64;
    let mut len_bytes = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len_bytes` bytes, the size of `cookie`.
    let result = unsafe {
        libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_COOKIE, (&raw mut cookie).cast(), &raw mut len_bytes)
    };
    (result == 0).then_some(cookie)
}

/// The handler in the child, where only atomics and system calls are allowed.
extern "C" fn in_child() {
    let forks = FORKS.fetch_add(1, Relaxed) + 1;
    PAGE.generation.store(forks + 1, Relaxed);
    let end = END.load(Acquire);
    let mut placeholder = NONE;
    for entry in &ENTRIES[..end] {
        if is_open(entry) {
            replace(entry.number.load(Acquire), &mut placeholder);
        }
        entry.number.store(NONE, Release);
    }
    if placeholder != NONE {
        // SAFETY: the descriptor was made by `replace`, and nothing else uses it.
        unsafe { libc::close(placeholder) };
    }
}

/// Replaces a descriptor by a placeholder, an eventfd.
fn replace(number: i32, placeholder: &mut i32) {
    // SAFETY: plain system calls. The descriptor belongs to this library, and no thread of the child uses it.
    unsafe {
        if *placeholder == NONE {
            *placeholder = libc::eventfd(0, libc::EFD_CLOEXEC);
        }
        if *placeholder == NONE {
            // There may be no free number except this one.
            libc::close(number);
            *placeholder = libc::eventfd(0, libc::EFD_CLOEXEC);
        }
        if *placeholder == number {
            // The eventfd got this number already; the next descriptor needs another eventfd.
            *placeholder = NONE;
        } else if *placeholder != NONE {
            libc::dup3(*placeholder, number, libc::O_CLOEXEC);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    /// Runs `check` in a child made by `make`. Returns the result of `check`.
    fn in_new_process(make: impl FnOnce() -> libc::pid_t, check: impl FnOnce() -> bool) -> bool {
        let child = make();
        if child == 0 {
            let good = check();
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(if good { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child of this function; `status` is a local variable.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        status == 0
    }

    #[test]
    fn a_child_has_another_generation_and_none_of_the_sockets() {
        let (socket, peer) = UnixDatagram::pair().unwrap();
        let kept = UnixDatagram::unbound().unwrap();
        close_in_children(&socket);
        let (number, other, own) = (socket.as_raw_fd(), kept.as_raw_fd(), generation());
        assert_ne!(own, 0);
        // SAFETY: the child makes only system calls, and exits.
        let told = in_new_process(
            || unsafe { libc::fork() },
            || {
                // SAFETY: only reads the descriptor's flags.
                let is_taken = unsafe { libc::fcntl(number, libc::F_GETFD) } == libc::FD_CLOEXEC;
                generation() > own && cookie(number).is_none() && is_taken && cookie(other).is_some()
            },
        );
        assert!(told, "the child was not told");
        // SAFETY: the child makes only system calls, and exits; `clone` without a stack is `fork` without its
        // handlers.
        let untold = in_new_process(
            || unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t },
            || {
                let noticed = generation() != own && cookie(number).is_some();
                watch();
                noticed && generation() > own && cookie(number).is_none()
            },
        );
        assert!(untold, "the child did not notice");
        assert_eq!(generation(), own);
        peer.send(b"x").unwrap();
        assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 1, "the parent's socket is unchanged");
    }

    #[test]
    fn a_number_that_has_become_another_s_is_left_alone() {
        let (socket, _peer) = UnixDatagram::pair().unwrap();
        let number = rustix::io::fcntl_dupfd_cloexec(&socket, 300).unwrap();
        close_in_children(&number);
        let program_s = UnixDatagram::unbound().unwrap();
        // Simulates that the library's socket was closed and the program got its number.
        let mut number = number;
        rustix::io::dup2(&program_s, &mut number).unwrap();
        // SAFETY: the child makes only system calls, and exits.
        let left = in_new_process(|| unsafe { libc::fork() }, || cookie(number.as_raw_fd()).is_some());
        assert!(left, "the child closed the program's socket");
    }
}

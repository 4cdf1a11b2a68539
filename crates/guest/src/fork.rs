//! What a forked child has of its parent's.
//!
//! A child has copies of our memory and of our descriptors, but none of our threads. Two things follow:
//!
//! * It must not go on with what its parent began: it would steal the parent's packets and wait for locks that nobody
//!   will release. [`generation`] tells parent and child apart. It costs one relaxed load.
//! * It must not keep the parent's sockets: a child that outlives its parent would keep the UDP port taken and the hub's
//!   connection open. So the child closes those that [`leave_behind`] was told of. Their numbers stay taken by something
//!   harmless, because the child's copies of our objects may close them later.
//!
//! A child that is made without the C library's `fork` (`clone`, `_Fork`) runs no handler. It still has another
//! generation: the number lies in a page that the kernel empties for every child (`MADV_WIPEONFORK`). It closes the
//! sockets when it opens the device itself.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, Once, PoisonError};

/// A page of its own, since the kernel empties whole pages.
#[repr(C, align(4096))]
struct Page {
    /// 0 in a child that has not noticed that it is one.
    generation: AtomicU32,
}

static PAGE: Page = Page { generation: AtomicU32::new(0) };
/// How many forks lie between this process and the first that called [`watch`], as far as they were noticed.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Most sockets that a child closes.
const MOST: usize = 2048;
/// An entry that is free.
const NONE: i32 = -1;

/// A socket that a child closes. Its number alone could be another file's by then.
struct Entry {
    number: AtomicI32,
    cookie: AtomicU64,
}

static ENTRIES: [Entry; MOST] = [const { Entry { number: AtomicI32::new(NONE), cookie: AtomicU64::new(0) } }; MOST];
/// Entries from here on were never used.
static END: AtomicUsize = AtomicUsize::new(0);
static WRITER: Mutex<()> = Mutex::new(());

/// Tells this process from its children and from its parent. Never 0 after [`watch`], but in a child that no
/// handler has told.
#[inline]
#[must_use]
pub fn generation() -> u32 {
    PAGE.generation.load(Relaxed)
}

/// Notices every fork from now on, and that this process is a child that no handler has told.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(begin);
    if generation() == 0 {
        in_child();
    }
}

fn begin() {
    PAGE.generation.store(1, Relaxed);
    // Not by `madvise`, where our own function would note the page as one that the program has marked.
    let page = (&raw const PAGE).cast_mut();
    // SAFETY: the page is ours alone and changes only through atomics. Where the kernel refuses, the handler is left.
    unsafe { libc::syscall(libc::SYS_madvise, page, size_of::<Page>(), libc::MADV_WIPEONFORK) };
    // SAFETY: the handler only uses atomics and system calls, which is allowed in a child of a process with many
    // threads, and it lives as long as the program.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Lets children close this socket: they have no use for it. Anything but a socket is left alone.
pub fn leave_behind(socket: impl AsFd) {
    let socket = socket.as_fd();
    let Some(cookie) = cookie(socket.as_raw_fd()) else { return };
    watch();
    let _writer = WRITER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(entry) = free_entry(socket) else { return };
    entry.number.store(NONE, Release);
    entry.cookie.store(cookie, Release);
    entry.number.store(socket.as_raw_fd(), Release);
}

/// An entry that nobody needs: of the same number, which was another socket's then, or free.
fn free_entry(socket: BorrowedFd<'_>) -> Option<&'static Entry> {
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

fn is_open(entry: &Entry) -> bool {
    cookie(entry.number.load(Acquire)) == Some(entry.cookie.load(Acquire))
}

/// What the kernel calls a socket; nothing for other files.
fn cookie(number: i32) -> Option<u64> {
    let mut cookie = 0u64;
    let mut len_bytes = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len_bytes` bytes, the size of `cookie`.
    let result = unsafe {
        libc::getsockopt(number, libc::SOL_SOCKET, libc::SO_COOKIE, (&raw mut cookie).cast(), &raw mut len_bytes)
    };
    (result == 0).then_some(cookie)
}

/// Runs in the child, where only atomics and system calls are allowed.
extern "C" fn in_child() {
    let forks = FORKS.fetch_add(1, Relaxed) + 1;
    PAGE.generation.store(forks + 1, Relaxed);
    let end = END.load(Acquire);
    let mut harmless = NONE;
    for entry in &ENTRIES[..end] {
        if is_open(entry) {
            replace(entry.number.load(Acquire), &mut harmless);
        }
        entry.number.store(NONE, Release);
    }
    if harmless != NONE {
        // SAFETY: made by `replace`, and known to nobody else.
        unsafe { libc::close(harmless) };
    }
}

/// Puts something harmless in the place of a descriptor.
fn replace(number: i32, harmless: &mut i32) {
    // SAFETY: plain system calls. The descriptor is ours, and what it was is used by nobody in a child.
    unsafe {
        if *harmless == NONE {
            *harmless = libc::eventfd(0, libc::EFD_CLOEXEC);
        }
        if *harmless == NONE {
            // There may be no number left but this one.
            libc::close(number);
            *harmless = libc::eventfd(0, libc::EFD_CLOEXEC);
        }
        if *harmless == number {
            // It has taken the place already; the next one needs another.
            *harmless = NONE;
        } else if *harmless != NONE {
            libc::dup3(*harmless, number, libc::O_CLOEXEC);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    /// Runs `check` in a child made by `make`; whether it said yes.
    fn in_new_process(make: impl FnOnce() -> libc::pid_t, check: impl FnOnce() -> bool) -> bool {
        let child = make();
        if child == 0 {
            let good = check();
            // SAFETY: ends the child without running what belongs to the parent.
            unsafe { libc::_exit(if good { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for our own child; `status` is ours.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        status == 0
    }

    #[test]
    fn a_child_has_another_generation_and_none_of_the_sockets() {
        let (socket, peer) = UnixDatagram::pair().unwrap();
        let kept = UnixDatagram::unbound().unwrap();
        leave_behind(&socket);
        let (number, other, own) = (socket.as_raw_fd(), kept.as_raw_fd(), generation());
        assert_ne!(own, 0);
        // SAFETY: the child makes only system calls, and exits.
        let told = in_new_process(
            || unsafe { libc::fork() },
            || {
                // SAFETY: asks about a number.
                let is_taken = unsafe { libc::fcntl(number, libc::F_GETFD) } == libc::FD_CLOEXEC;
                generation() > own && cookie(number).is_none() && is_taken && cookie(other).is_some()
            },
        );
        assert!(told, "the child was not told");
        // SAFETY: as above; a `clone` without a stack is what `fork` does, without its handlers.
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
        assert_eq!(socket.recv(&mut [0; 8]).unwrap(), 1, "the parent's is as it was");
    }

    #[test]
    fn a_number_that_has_become_another_s_is_left_alone() {
        let (socket, _peer) = UnixDatagram::pair().unwrap();
        let number = rustix::io::fcntl_dupfd_cloexec(&socket, 300).unwrap();
        leave_behind(&number);
        let program_s = UnixDatagram::unbound().unwrap();
        // As if ours had been closed and the program had got the number.
        let mut number = number;
        rustix::io::dup2(&program_s, &mut number).unwrap();
        // SAFETY: the child makes only system calls, and exits.
        let left = in_new_process(|| unsafe { libc::fork() }, || cookie(number.as_raw_fd()).is_some());
        assert!(left, "a socket of the program's was closed");
    }
}

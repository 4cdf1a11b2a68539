//! Descriptors through which the kernel may hold pages of this process.
//!
//! io_uring keeps the pages of registered buffers, and of reads in progress. So do AIO, VFIO, GPUs, AF_XDP,
//! and other RDMA devices. They keep using those pages after other pages have been mapped at the same
//! addresses. No call tells which pages are held, so this module checks the descriptors: any that is not
//! known to hold no pages may hold some.

use std::fs;
use std::os::fd::RawFd;

use crate::probe;

/// Anonymous descriptors that never hold memory of a process between two calls.
const HARMLESS_ANONYMOUS: [&str; 9] = [
    "[eventfd]",
    "[eventpoll]",
    "[timerfd]",
    "[signalfd]",
    "[pidfd]",
    "[fanotify]",
    "inotify",
    "[inotify]",
    "[landlock-ruleset]",
];
/// Major numbers of terminals.
const TERMINALS: [libc::c_uint; 2] = [4, 5];
const PSEUDO_TERMINALS: core::ops::RangeInclusive<libc::c_uint> = 136..=143;
/// Major number of /dev/null and similar devices, and the minor numbers of those that do no I/O into held
/// pages: null, zero, full, random, urandom, kmsg.
const MEMORY_DEVICES: libc::c_uint = 1;
const HARMLESS_MEMORY_DEVICES: [libc::c_uint; 6] = [3, 5, 7, 8, 9, 11];
const HARMLESS_DOMAINS: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// AIO and io_uring rings are mapped for as long as they work, even without a descriptor.
const RINGS: [&[u8]; 2] = [b"/[aio]", b"anon_inode:[io_uring]"];

/// True if pages of this process may be held. `threads`: other threads may be in a direct read, which holds
/// pages until it returns.
pub(super) fn may_exist(threads: bool) -> bool {
    has_rings() || !descriptors_are_harmless(threads)
}

fn has_rings() -> bool {
    let mut found = false;
    probe::visit_all(|_, name| found |= RINGS.iter().any(|ring| name.starts_with(ring)));
    found
}

fn descriptors_are_harmless(threads: bool) -> bool {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return false };
    for entry in entries {
        let Ok(entry) = entry else { return false };
        let name = entry.file_name();
        let Some(fd) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A descriptor that is gone by this time was the directory's own, or another thread closed it.
        if let Ok(target) = fs::read_link(entry.path())
            && !is_harmless(fd, target.as_os_str().as_encoded_bytes(), threads)
        {
            log::debug!("descriptor {fd} ({}) may hold memory of this process", target.display());
            return false;
        }
    }
    true
}

fn is_harmless(fd: RawFd, target: &[u8], threads: bool) -> bool {
    if let Some(kind) = target.strip_prefix(b"anon_inode:") {
        return HARMLESS_ANONYMOUS.iter().any(|harmless| kind == harmless.as_bytes());
    }
    if target.starts_with(b"pipe:[") {
        return true;
    }
    if target.starts_with(b"socket:[") {
        return is_harmless_socket(fd);
    }
    target.starts_with(b"/") && is_harmless_file(fd, threads)
}

fn is_harmless_file(fd: RawFd, threads: bool) -> bool {
    // SAFETY: an all-zero `stat` is valid, and the call fills it.
    let status = unsafe {
        let mut status: libc::stat = core::mem::zeroed();
        if libc::fstat(fd, &mut status) != 0 {
            return false;
        }
        status
    };
    let (major, minor) = (libc::major(status.st_rdev), libc::minor(status.st_rdev));
    match status.st_mode & libc::S_IFMT {
        libc::S_IFREG | libc::S_IFBLK => !threads || !is_direct(fd),
        libc::S_IFDIR | libc::S_IFIFO | libc::S_IFLNK => true,
        libc::S_IFSOCK => is_harmless_socket(fd),
        libc::S_IFCHR => {
            TERMINALS.contains(&major)
                || PSEUDO_TERMINALS.contains(&major)
                || (major == MEMORY_DEVICES && HARMLESS_MEMORY_DEVICES.contains(&minor))
        }
        _ => false,
    }
}

/// True if reads go directly into the caller's pages (O_DIRECT of open(2)).
fn is_direct(fd: RawFd) -> bool {
    // SAFETY: only reads the descriptor's flags.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags < 0 || flags & libc::O_DIRECT != 0
}

/// True for an ordinary socket that copies data (no MSG_ZEROCOPY).
fn is_harmless_socket(fd: RawFd) -> bool {
    let domain = option(fd, libc::SO_DOMAIN);
    domain.is_some_and(|domain| HARMLESS_DOMAINS.contains(&domain)) && option(fd, libc::SO_ZEROCOPY) != Some(1)
}

fn option(fd: RawFd, name: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the call writes at most `len` bytes, the size of `value`.
    let got = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, name, (&raw mut value).cast(), &mut len) };
    (got == 0).then_some(value)
}

/// True if another process, a child or the parent, runs in this address space (`CLONE_VM` of clone(2) without
/// `CLONE_THREAD`). This process's task list does not show its threads.
pub(super) fn shares_memory_with_relatives() -> bool {
    // SAFETY: these calls take no arguments and cannot fail.
    let (own, parent) = unsafe { (libc::getpid(), libc::getppid()) };
    shares_memory(own, parent) || children().any(|child| shares_memory(own, child))
}

fn shares_memory(own: libc::pid_t, other: libc::pid_t) -> bool {
    /// `KCMP_VM` of <linux/kcmp.h>.
    const VM: libc::c_long = 1;
    // SAFETY: only compares two processes. An error means that this process may not inspect the other, so
    // they share no memory.
    other > 0 && unsafe { libc::syscall(libc::SYS_kcmp, own, other, VM, 0, 0) == 0 }
}

fn children() -> impl Iterator<Item = libc::pid_t> {
    let text = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    let children: Vec<libc::pid_t> = text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    children.into_iter()
}

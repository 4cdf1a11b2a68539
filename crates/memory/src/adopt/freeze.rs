//! Stopping whoever writes to a range, with userfaultfd(2).

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::region::checked;

/// `struct uffdio_api` of <linux/userfaultfd.h>.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct WriteProtect {
    start: u64,
    len: u64,
    mode: u64,
}

const MAGIC: u32 = 0xaa;
const UFFDIO_API: libc::Ioctl = libc::_IOWR::<Api>(MAGIC, 0x3f);
const UFFDIO_REGISTER: libc::Ioctl = libc::_IOWR::<Register>(MAGIC, 0);
const UFFDIO_WRITEPROTECT: libc::Ioctl = libc::_IOWR::<WriteProtect>(MAGIC, 6);

const UFFD_API: u64 = 0xaa;
const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1;
/// Write protection of shared memory, Linux 5.19.
const FEATURE_WP_SHMEM: u64 = 1 << 12;
const USER_MODE_ONLY: libc::c_int = 1;
const MODE_MISSING: u64 = 1;
const MODE_WP: u64 = 2;
const WRITEPROTECT: u64 = 1;

/// What lies behind a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Private anonymous memory. Who touches a page that is not there waits too, even to read.
    Private,
    /// A memfd. Reading goes on.
    Shared,
}

/// A range whose writers wait until this is dropped. They then try again with what is mapped there.
#[derive(Debug)]
pub(super) struct Frozen {
    _fd: OwnedFd,
}

impl Frozen {
    /// Lets whoever writes to these pages from now on wait.
    ///
    /// # Errors
    /// What the kernel says: EPERM and ENOSYS where userfaultfd is not allowed, EINVAL if the
    /// kernel is too old, EBUSY if the program watches the range so itself.
    pub(super) fn new(range: &Range<usize>, kind: Kind) -> io::Result<Frozen> {
        let fd = open()?;
        let (start, len) = (range.start as u64, range.len() as u64);
        let mode = if kind == Kind::Private { MODE_MISSING | MODE_WP } else { MODE_WP };
        let mut register = Register { start, len, mode, ioctls: 0 };
        let mut protect = WriteProtect { start, len, mode: WRITEPROTECT };
        // SAFETY: each request reads and writes one such structure; what becomes of the range
        // is that accesses wait.
        unsafe {
            checked(libc::ioctl(fd.as_raw_fd(), UFFDIO_REGISTER, &mut register))?;
            checked(libc::ioctl(fd.as_raw_fd(), UFFDIO_WRITEPROTECT, &mut protect))?;
        }
        Ok(Frozen { _fd: fd })
    }
}

/// A userfaultfd that catches the kernel's own accesses as well, if we may have one; or else one
/// that makes them fail.
fn open() -> io::Result<OwnedFd> {
    let create = |flags: libc::c_int| {
        // SAFETY: makes a descriptor.
        checked(unsafe { libc::syscall(libc::SYS_userfaultfd, flags | libc::O_CLOEXEC) } as libc::c_int)
    };
    let fd = create(0).or_else(|_| create(USER_MODE_ONLY))?;
    // SAFETY: ours from its birth.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut api = Api { api: UFFD_API, features: FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_SHMEM, ioctls: 0 };
    // SAFETY: reads and writes one such structure.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, &mut api) })?;
    Ok(fd)
}

static OWN_THREADS: AtomicUsize = AtomicUsize::new(0);

/// How many threads of this process never write to memory while it is being registered or
/// deregistered. Where userfaultfd is not allowed, memory can be moved only if there are no others
/// but the one that registers it.
pub fn set_own_threads(count: usize) {
    OWN_THREADS.store(count.min(u16::MAX.into()), Relaxed);
}

/// What keeps the writers of a range away: the kernel, or that there are none.
#[derive(Debug)]
pub(super) enum Stillness {
    Frozen { _writers: Frozen },
    Alone,
}

impl Stillness {
    /// Keeps the writers of a range away, if that is possible: by the kernel, or because no
    /// thread exists but this one and those that are known not to write there.
    pub(super) fn of(range: &Range<usize>, kind: Kind) -> Option<Stillness> {
        match Frozen::new(range, kind) {
            Ok(writers) => Some(Stillness::Frozen { _writers: writers }),
            Err(_) => is_alone().then_some(Stillness::Alone),
        }
    }
}

/// Whether writers can be kept away at all.
pub(super) fn is_possible() -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| open().is_ok()) || is_alone()
}

fn is_alone() -> bool {
    let threads = OWN_THREADS.load(Relaxed).saturating_add(1);
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.take(threads + 1).count() <= threads)
}

/// No signal handler runs on this thread as long as it lives: it might wait for a page that this
/// thread has frozen.
pub(super) struct NoSignals {
    before: libc::sigset_t,
}

impl NoSignals {
    pub(super) fn new() -> NoSignals {
        // SAFETY: all zeros are a set, which is then filled; the mask is this thread's own.
        unsafe {
            let mut all: libc::sigset_t = core::mem::zeroed();
            let mut before: libc::sigset_t = core::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            NoSignals { before }
        }
    }
}

impl Drop for NoSignals {
    fn drop(&mut self) {
        // SAFETY: as it was.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, core::ptr::null_mut()) };
    }
}

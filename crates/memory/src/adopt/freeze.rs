//! Stops threads that write to a range, with userfaultfd(2).

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::proof::{self, Adoption, AdoptionResult};
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

/// The kind of memory behind a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MemoryKind {
    /// Private anonymous memory. A thread that touches a missing page waits too, even to read.
    Private,
    /// A memfd. Readers do not wait.
    Shared,
}

/// A frozen range. Its writers wait until this value is dropped, then retry on the mapping that is there by
/// then.
#[derive(Debug)]
pub(super) struct Frozen {
    _fd: OwnedFd,
}

impl Frozen {
    /// Makes every thread wait that writes to these pages from this moment on.
    ///
    /// # Errors
    /// The kernel's error: EPERM and ENOSYS where userfaultfd is not allowed, EINVAL if the kernel is too
    /// old, EBUSY if the program itself watches the range with userfaultfd.
    pub(super) fn new(range: &Range<usize>, kind: MemoryKind) -> io::Result<Frozen> {
        let fd = open()?;
        let (start, len) = (range.start as u64, range.len() as u64);
        let mode = if kind == MemoryKind::Private { MODE_MISSING | MODE_WP } else { MODE_WP };
        let mut register = Register { start, len, mode, ioctls: 0 };
        let mut protect = WriteProtect { start, len, mode: WRITEPROTECT };
        // SAFETY: each request reads and writes one structure of its type. The only effect on the range is
        // that accesses wait.
        unsafe {
            checked(libc::ioctl(fd.as_raw_fd(), UFFDIO_REGISTER, &mut register))?;
            checked(libc::ioctl(fd.as_raw_fd(), UFFDIO_WRITEPROTECT, &mut protect))?;
        }
        Ok(Frozen { _fd: fd })
    }
}

/// A userfaultfd that also catches the kernel's own accesses, if the process may have one; otherwise one that
/// makes them fail.
fn open() -> io::Result<OwnedFd> {
    let create = |flags: libc::c_int| {
        // SAFETY: the call takes flags only and returns a new descriptor.
        checked(unsafe { libc::syscall(libc::SYS_userfaultfd, flags | libc::O_CLOEXEC) } as libc::c_int)
    };
    let fd = create(0).or_else(|_| create(USER_MODE_ONLY))?;
    // SAFETY: a new descriptor that nothing else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut api = Api { api: UFFD_API, features: FEATURE_PAGEFAULT_FLAG_WP | FEATURE_WP_SHMEM, ioctls: 0 };
    // SAFETY: the request reads and writes one structure of this type.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, &mut api) })?;
    Ok(fd)
}

/// The reason why no thread writes to pages while they move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writers {
    /// There are no writers: see [`proof`].
    None,
    /// The kernel stops the writers.
    Stopped,
}

impl Writers {
    /// For private pages that will be adopted.
    pub(super) fn for_moving(range: &Range<usize>, mode: Adoption) -> Result<Writers, AdoptionResult> {
        match mode {
            Adoption::Never => Err(AdoptionResult::Unsuitable),
            Adoption::Safe => proof::may_move(range).map(|()| Writers::None),
            Adoption::Always => Writers::stopped_or_none(),
        }
    }

    /// For adopted pages that will be private again.
    pub(super) fn for_moving_back(mode: Adoption) -> Result<Writers, AdoptionResult> {
        match mode {
            Adoption::Always => Writers::stopped_or_none(),
            _ => proof::may_move_back().map(|()| Writers::None),
        }
    }

    fn stopped_or_none() -> Result<Writers, AdoptionResult> {
        match open() {
            Ok(_) => Ok(Writers::Stopped),
            Err(_) if proof::is_alone() => Ok(Writers::None),
            Err(_) => Err(AdoptionResult::Threads),
        }
    }

    /// Keeps the writers of a range away until the returned value is dropped.
    pub(super) fn keep_away(self, range: &Range<usize>, kind: MemoryKind) -> io::Result<Option<Frozen>> {
        match self {
            Writers::None => Ok(None),
            Writers::Stopped => Frozen::new(range, kind).map(Some),
        }
    }
}

/// Blocks signals on this thread while the value lives: a handler might wait for a page that this thread has
/// frozen.
pub(super) struct NoSignals {
    before: libc::sigset_t,
}

impl NoSignals {
    pub(super) fn new() -> NoSignals {
        // SAFETY: an all-zero `sigset_t` is valid and `sigfillset` fills it; the mask belongs to this thread.
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
        // SAFETY: `before` is the mask that `pthread_sigmask` returned in `new`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, core::ptr::null_mut()) };
    }
}

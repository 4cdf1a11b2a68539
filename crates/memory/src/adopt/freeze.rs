//! Stopping whoever writes to a range, with userfaultfd(2).

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::proof::{self, Adoption, Verdict};
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

/// Why nobody writes to pages while they move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Writers {
    /// There are none: see [`proof`].
    None,
    /// The kernel stops them.
    Stopped,
}

impl Writers {
    /// For private pages that are to be adopted.
    pub(super) fn for_moving(range: &Range<usize>, mode: Adoption) -> Result<Writers, Verdict> {
        match mode {
            Adoption::Never => Err(Verdict::Unsuitable),
            Adoption::Safe => proof::may_move(range).map(|()| Writers::None),
            Adoption::Always => Writers::stopped_or_none(),
        }
    }

    /// For adopted pages that are to be private again.
    pub(super) fn for_moving_back(mode: Adoption) -> Result<Writers, Verdict> {
        match mode {
            Adoption::Always => Writers::stopped_or_none(),
            _ => proof::may_move_back().map(|()| Writers::None),
        }
    }

    fn stopped_or_none() -> Result<Writers, Verdict> {
        match open() {
            Ok(_) => Ok(Writers::Stopped),
            Err(_) if proof::is_alone() => Ok(Writers::None),
            Err(_) => Err(Verdict::Threads),
        }
    }

    /// Keeps the writers of a range away until what is returned is dropped.
    pub(super) fn keep_away(self, range: &Range<usize>, kind: Kind) -> io::Result<Option<Frozen>> {
        match self {
            Writers::None => Ok(None),
            Writers::Stopped => Frozen::new(range, kind).map(Some),
        }
    }
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

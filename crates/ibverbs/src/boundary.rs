//! The border to C: errno, and no panic beyond it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::c_int;

/// An errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Errno(pub(crate) c_int);

impl Errno {
    pub(crate) const INVAL: Errno = Errno(libc::EINVAL);
    pub(crate) const NOENT: Errno = Errno(libc::ENOENT);
    pub(crate) const NOMEM: Errno = Errno(libc::ENOMEM);
    pub(crate) const NOT_SUPPORTED: Errno = Errno(libc::EOPNOTSUPP);

    pub(crate) fn set(self) {
        // SAFETY: the address of this thread's errno.
        unsafe { *libc::__errno_location() = self.0 };
    }

    pub(crate) fn last() -> Errno {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<device::Error> for Errno {
    fn from(error: device::Error) -> Errno {
        log::debug!("{error}");
        Errno(error.errno())
    }
}

impl From<device::OpenError> for Errno {
    fn from(error: device::OpenError) -> Errno {
        log::debug!("{error}");
        Errno(error.errno())
    }
}

impl From<connect::Error> for Errno {
    fn from(error: connect::Error) -> Errno {
        log::debug!("{error}");
        Errno(error.errno())
    }
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Errno {
        Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// Runs a verb; if it panics the caller sees an I/O error instead.
#[inline(always)]
fn caught<T>(verb: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    catch_unwind(AssertUnwindSafe(verb)).unwrap_or(Err(Errno(libc::EIO)))
}

/// Likewise, and no thread is cancelled in it: `pthread_cancel(3)` would unwind it through code that does not
/// expect that. It is at the program's next point of cancellation.
fn guarded<T>(verb: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let _uncancelled = Uncancelled::new();
    caught(verb)
}

/// For verbs that return zero or an errno; most set it as well.
pub(crate) fn errno(verb: impl FnOnce() -> Result<(), Errno>) -> c_int {
    as_errno(guarded(verb))
}

/// For verbs that return a number, or −1 and set errno.
pub(crate) fn minus_one(verb: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    guarded(verb).unwrap_or_else(|error| {
        error.set();
        -1
    })
}

/// For verbs that return a pointer, or null and set errno.
pub(crate) fn pointer<T>(verb: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    guarded(verb).unwrap_or_else(|error| {
        error.set();
        std::ptr::null_mut()
    })
}

/// For anything else.
pub(crate) fn otherwise<T>(fallback: T, verb: impl FnOnce() -> T) -> T {
    guarded(|| Ok(verb())).unwrap_or(fallback)
}

/// The same for verbs of the hot path, which have no point of cancellation in them.
pub(crate) mod hot {
    use super::{Errno, as_errno, c_int, caught};

    /// As [`errno`](super::errno).
    #[inline(always)]
    pub(crate) fn errno(verb: impl FnOnce() -> Result<(), Errno>) -> c_int {
        as_errno(caught(verb))
    }

    /// As [`otherwise`](super::otherwise).
    #[inline(always)]
    pub(crate) fn otherwise<T>(fallback: T, verb: impl FnOnce() -> T) -> T {
        caught(|| Ok(verb())).unwrap_or(fallback)
    }
}

#[inline(always)]
fn as_errno(outcome: Result<(), Errno>) -> c_int {
    match outcome {
        Ok(()) => 0,
        Err(error) => refused(error),
    }
}

#[cold]
fn refused(error: Errno) -> c_int {
    log::debug!("refused: {}", std::io::Error::from_raw_os_error(error.0));
    error.set();
    error.0
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// As libc has it on Linux.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// While this lives the thread is not cancelled.
struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    fn new() -> Uncancelled {
        let mut before = 0;
        // SAFETY: a place of ours; the call changes nothing but this thread's state.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state that the thread had; nobody wants to know the one that it has.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}

//! The border to C: errno, and no panic beyond it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::c_int;

pub(crate) use ::rsocket::Errno;

/// Sets the errno of this thread.
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the address is that of this thread's errno.
    unsafe { *libc::__errno_location() = errno.0 };
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
    or_minus_one(guarded(verb))
}

/// For calls that return zero, or −1 and set errno.
pub(crate) fn zero(call: impl FnOnce() -> Result<(), Errno>) -> c_int {
    minus_one(|| call().map(|()| 0))
}

#[inline(always)]
fn or_minus_one<N: From<i8>>(outcome: Result<N, Errno>) -> N {
    outcome.unwrap_or_else(|error| {
        set_errno(error);
        N::from(-1)
    })
}

/// For verbs that return a pointer, or null and set errno.
pub(crate) fn pointer<T>(verb: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    guarded(verb).unwrap_or_else(|error| {
        set_errno(error);
        std::ptr::null_mut()
    })
}

/// For anything else.
pub(crate) fn otherwise<T>(fallback: T, verb: impl FnOnce() -> T) -> T {
    guarded(|| Ok(verb())).unwrap_or(fallback)
}

/// The same for verbs of the hot path, which have no point of cancellation in them.
pub(crate) mod hot {
    use super::{Errno, as_errno, c_int, caught, or_minus_one};

    /// As [`errno`](super::errno).
    #[inline(always)]
    pub(crate) fn errno(verb: impl FnOnce() -> Result<(), Errno>) -> c_int {
        as_errno(caught(verb))
    }

    /// For calls that return a number of bytes, or −1 and set errno.
    #[inline(always)]
    pub(crate) fn counted(call: impl FnOnce() -> Result<usize, Errno>) -> libc::ssize_t {
        or_minus_one(caught(|| call().map(|count| count as libc::ssize_t)))
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
    set_errno(error);
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

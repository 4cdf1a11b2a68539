//! The border to C: errno, panics, and the contracts of the verbs.
//!
//! # Contracts
//!
//! Every verb is an `unsafe` function, since a C program calls it. The program keeps the rules of the man page; nothing
//! here can check them. `# Safety` sections state these rules in short, and SAFETY comments name the function whose
//! contract they rely on. The words in them stand for the following:
//!
//! * **An object** is *open*, *created*, *allocated*, *registered*, or just *exists*: its pointer came from the verb that
//!   makes such objects, and no verb has destroyed the object. The program destroys it neither before the call returns nor
//!   in another thread meanwhile.
//! * **Our part of an object** lies behind the program's structure (`object.rs`). No program writes to it, and it stays in
//!   place until the object is destroyed. So references to it are valid for the whole call. All of it may be used by any
//!   thread.
//! * **The program's part** may be written by the program at any time. We read and write its fields through raw pointers,
//!   or through a reference only in verbs that are documented to change the structure.
//! * **Readable**: the pointer is null, or aligned and valid for reads of its type. Nobody writes there until the call
//!   returns.
//! * **A place**, *to write*, *room for n*: the pointer is null, or aligned and valid for reads and writes of its type, or of
//!   n values. Nobody else uses it until the call returns.
//! * **Bytes**: the pointer is null, or names as many bytes as the length next to it says.
//! * **A string** is null, or ends with a zero byte.
//! * **A list of requests** ends with a null; each request is readable, and so are the entries and the inline bytes that it
//!   names.
//! * **Registered memory** stays mapped until it is deregistered. Peers and the program may write to it at any time, so we
//!   copy it and never make a reference to it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use abi::c_int;

pub(crate) use ::rsocket::Errno;

/// Sets the errno of this thread.
pub(crate) fn set_errno(errno: Errno) {
    // SAFETY: the address is that of this thread's errno.
    unsafe { *libc::__errno_location() = errno.0 };
}

/// Runs a verb. If it panics, the caller gets `EIO`.
#[inline(always)]
fn caught<T>(verb: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    catch_unwind(AssertUnwindSafe(verb)).unwrap_or(Err(Errno(libc::EIO)))
}

/// Runs a verb as [`caught`] does, with cancellation disabled: `pthread_cancel(3)` would unwind the thread through code
/// that does not expect it. The thread is cancelled at the program's next cancellation point.
fn guarded<T>(verb: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let _uncancelled = Uncancelled::new();
    caught(verb)
}

/// For verbs that return zero or an errno, which is set as well.
pub(crate) fn errno(verb: impl FnOnce() -> Result<(), Errno>) -> c_int {
    as_errno(guarded(verb))
}

/// For verbs that return a number, or −1 and set errno.
pub(crate) fn minus_one(verb: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    or_minus_one(guarded(verb))
}

/// Writes as much of an answer as the caller has room for, and zeros behind it: the caller may have been compiled with
/// an older or a newer structure.
///
/// # Safety
/// `out` has room for `room` bytes, at the alignment of `T`.
pub(crate) unsafe fn write_with_room<T>(out: *mut T, answer: &T, room: usize) {
    let known = room.min(size_of::<T>());
    // SAFETY: the contract of `write_with_room`: `room` bytes, of which `known` are copied and the others zeroed.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const *answer).cast::<u8>(), out.cast::<u8>(), known);
        out.cast::<u8>().add(known).write_bytes(0, room - known);
    }
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

/// For verbs with any other result: `fallback` if they panic.
pub(crate) fn otherwise<T>(fallback: T, verb: impl FnOnce() -> T) -> T {
    guarded(|| Ok(verb())).unwrap_or(fallback)
}

/// The same for verbs of the hot path, which contain no cancellation point.
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

/// The value of libc on Linux.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// The thread is not cancelled while this lives.
struct Uncancelled {
    before: c_int,
}

impl Uncancelled {
    fn new() -> Uncancelled {
        let mut before = 0;
        // SAFETY: `before` is a place for the old state; the call changes this thread's state only.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Uncancelled { before }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state that the thread had before; the call accepts null for the place of the old state.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}

//! The word by which a process tells its peers that it has died, without any code of its own.
//!
//! A thread of the owner holds a robust mutex in its export for as long as it lives. When the thread dies, the kernel
//! sets `FUTEX_OWNER_DIED` in the mutex: before it closes the process's descriptors, and before anybody can wait for
//! the process (get_robust_list(2)). So a peer that finds the bit unset behind an access has reached a living process.
//! The socket between the two tells the same some milliseconds later, when a thread has looked at it.
//!
//! The kernel keeps this promise only for the thread that locked. Nobody else ever locks, so nobody waits.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::fence;
use std::io;

use crate::mapping::Layout;

/// Set by the kernel in the word of a robust futex whose holder has died (linux/futex.h).
const FUTEX_OWNER_DIED: u32 = 0x4000_0000;
/// The place of the futex in the C library's mutex: the first word with glibc, the second with musl.
const FUTEX_WORD: usize = if cfg!(target_env = "musl") { 1 } else { 0 };

/// A robust mutex. Zero bytes are one that was never made: its owner counts as living.
#[repr(C, align(64))]
pub(crate) struct LifeLock(UnsafeCell<MaybeUninit<libc::pthread_mutex_t>>);

// SAFETY: peers read one word of it, as an atomic; only the owner's C library uses the rest, by pointer.
unsafe impl Layout for LifeLock {}
// SAFETY: as for `Layout`.
unsafe impl Sync for LifeLock {}

const _: () = assert!(size_of::<LifeLock>() == 64);

impl LifeLock {
    /// Makes the mutex; to be called once by the owner, before any peer maps it.
    ///
    /// # Errors
    /// The error of pthread_mutex_init(3).
    pub(crate) fn init(&self) -> io::Result<()> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the attributes are initialised first and destroyed last; the mutex is this value's own memory, which
        // nobody uses yet.
        unsafe {
            checked(libc::pthread_mutexattr_init(attributes.as_mut_ptr()))?;
            let made = checked(libc::pthread_mutexattr_setrobust(attributes.as_mut_ptr(), libc::PTHREAD_MUTEX_ROBUST))
                .and_then(|()| checked(libc::pthread_mutex_init(self.mutex(), attributes.as_ptr())));
            libc::pthread_mutexattr_destroy(attributes.as_mut_ptr());
            made
        }
    }

    /// Locks for the calling thread, whose death then counts as the owner's. `None` if a thread holds it already.
    pub(crate) fn hold(&self) -> Option<HeldLife<'_>> {
        // SAFETY: the mutex was made by `init`, and lives for as long as the guard borrows it.
        let locked = unsafe { libc::pthread_mutex_trylock(self.mutex()) };
        (locked == 0).then_some(HeldLife { lock: self, tied: PhantomData })
    }

    /// Whether the holder has died. If not, what this thread has read of the owner's memory before, it has read of a
    /// living process.
    #[inline(always)]
    pub(crate) fn has_died(&self) -> bool {
        fence(Acquire);
        self.word().load(Relaxed) & FUTEX_OWNER_DIED != 0
    }

    fn mutex(&self) -> *mut libc::pthread_mutex_t {
        self.0.get().cast()
    }

    #[inline(always)]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: within the mutex and aligned, and the C library and the kernel use that word atomically.
        unsafe { AtomicU32::from_ptr(self.0.get().cast::<u32>().add(FUTEX_WORD)) }
    }
}

/// The hold of one thread, which lets go of it on drop. To forget it, or to end the thread without a drop, is to die.
#[derive(Debug)]
#[must_use]
pub struct HeldLife<'a> {
    lock: &'a LifeLock,
    /// A mutex belongs to the thread that locked it.
    tied: PhantomData<*const ()>,
}

impl core::fmt::Debug for LifeLock {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LifeLock").field("died", &self.has_died()).finish_non_exhaustive()
    }
}

impl Drop for HeldLife<'_> {
    fn drop(&mut self) {
        // SAFETY: this thread has locked it, since the guard cannot leave its thread.
        unsafe { libc::pthread_mutex_unlock(self.lock.mutex()) };
    }
}

fn checked(error: libc::c_int) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error)) }
}

//! Copies of memory that the program may have poisoned for AddressSanitizer.
//!
//! A network card accesses registered memory even where it is poisoned: the free elements of a pool, the
//! unused capacity of a vector. The sanitizer's `memmove`, which replaces the C library's in a sanitized
//! program, would end the program there. In such a program these copies use the C library's own function.

use core::mem::transmute;
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use guest::sanitizer::{self, Memmove};

/// The C library's own [`Memmove`] in a sanitized program, null in others.
static UNWATCHED: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Finds out if the program is sanitized. Called before memory is registered.
pub(crate) fn prepare() {
    if let Some(memmove) = sanitizer::replaced_memmove() {
        UNWATCHED.store(memmove as *mut (), Relaxed);
    }
}

/// Copies between two ranges that may overlap.
///
/// # Safety
/// As [`core::ptr::copy`].
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len_bytes: usize) {
    let unwatched = UNWATCHED.load(Relaxed);
    // SAFETY: this function's contract is that of `core::ptr::copy`; `unwatched` comes from `UNWATCHED`.
    unsafe {
        if unwatched.is_null() {
            core::ptr::copy(from, to, len_bytes);
        } else {
            copy_by(unwatched, from, to, len_bytes);
        }
    }
}

/// Copies between two ranges that do not overlap.
///
/// # Safety
/// As [`core::ptr::copy_nonoverlapping`].
#[inline(always)]
pub(crate) unsafe fn copy_apart(from: *const u8, to: *mut u8, len_bytes: usize) {
    let unwatched = UNWATCHED.load(Relaxed);
    // SAFETY: this function's contract is that of `core::ptr::copy_nonoverlapping`; `unwatched` comes from
    // `UNWATCHED`.
    unsafe {
        if unwatched.is_null() {
            core::ptr::copy_nonoverlapping(from, to, len_bytes);
        } else {
            copy_by(unwatched, from, to, len_bytes);
        }
    }
}

/// # Safety
/// As `copy`; and `memmove` is the non-null value of `UNWATCHED`.
#[cold]
#[inline(never)]
unsafe fn copy_by(memmove: *mut (), from: *const u8, to: *mut u8, len_bytes: usize) {
    // SAFETY: only `prepare` stores to `UNWATCHED`, and it stores a function of this type.
    unsafe { transmute::<*mut (), Memmove>(memmove)(to.cast(), from.cast(), len_bytes) };
}

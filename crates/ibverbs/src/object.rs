//! Objects that programs hold: a structure of the header, and ours right behind it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::boundary::Errno;

/// A structure of C that programs see, and what belongs to it.
///
/// Programs read and write the first part as they like; we touch it through raw pointers only.
#[repr(C)]
pub(crate) struct Object<C, O> {
    c: UnsafeCell<C>,
    pub(crate) own: O,
}

impl<C, O> Object<C, O> {
    /// Makes one; it lives until [`free`](Self::free).
    pub(crate) fn leak(c: C, own: O) -> *mut C {
        Box::into_raw(Box::new(Object { c: UnsafeCell::new(c), own })).cast()
    }

    /// Makes one where there is room for it already.
    ///
    /// # Safety
    /// `place` is a boxed place for this type that nothing is in.
    pub(crate) unsafe fn write(place: *mut C, c: C, own: O) {
        // SAFETY: the caller's promise.
        unsafe { place.cast::<Self>().write(Object { c: UnsafeCell::new(c), own }) };
    }

    /// What belongs to a structure that a program gave us.
    ///
    /// # Safety
    /// Null, or from [`leak`](Self::leak) with these types and not freed.
    #[inline]
    pub(crate) unsafe fn of<'a>(c: *mut C) -> Result<&'a O, Errno> {
        if c.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's promise. Only our part is referred to, which nobody changes.
        Ok(unsafe { &(*c.cast::<Self>()).own })
    }

    /// # Safety
    /// From [`leak`](Self::leak) with these types, and never used again.
    pub(crate) unsafe fn free(c: *mut C) {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(c.cast::<Self>()) });
    }
}

/// A number for the `handle` of an object: for people who read dumps.
pub(crate) fn next_handle() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Relaxed)
}

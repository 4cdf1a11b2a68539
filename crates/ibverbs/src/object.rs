//! Objects that programs hold: a structure of the header, and ours right behind it.
//!
//! A program may write a wrong number into the `handle` of a structure. The kernel finds no object with that number and
//! answers ENOENT; so do we, by comparing it with the one that we gave.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::boundary::Errno;
use abi::*;

/// A structure of C that programs see, with our part behind it.
///
/// Programs read and write the first part as they like; we touch it through raw pointers only.
#[repr(C)]
pub(crate) struct CObject<C, O> {
    c: UnsafeCell<C>,
    /// The correct value of the structure's `handle`.
    handle: u32,
    pub(crate) own: O,
}

/// A structure of C that has an object behind it.
pub(crate) trait Structure {
    /// Its `handle`; zero if it has none.
    ///
    /// # Safety
    /// It exists; the program may write to it meanwhile.
    unsafe fn handle(this: *const Self) -> u32;
}

macro_rules! structures {
    ($($name:ty $(: $($field:ident).+)?),+ $(,)?) => {
        $(
            impl Structure for $name {
                #[inline]
                unsafe fn handle(_this: *const Self) -> u32 {
                    structures!(@handle _this $(, $($field).+)?)
                }
            }
        )+
    };
    (@handle $this:ident) => { 0 };
    (@handle $this:ident, $($field:ident).+) => {
        // SAFETY: the contract of `handle`: it exists; the program may write to it meanwhile; no reference is made to
        // what the program may change.
        unsafe { (&raw const (*$this).$($field).+).read() }
    };
}
structures!(
    ibv_pd: handle,
    ibv_mr: handle,
    ibv_mw: handle,
    ibv_ah: handle,
    ibv_srq: handle,
    ibv_dm: handle,
    ibv_cq_ex: base.handle,
    ibv_qp_ex: qp_base.handle,
    ibv_xrcd,
    ibv_td,
    ibv_comp_channel,
    rdma_cm_id,
    rdma_cm_event,
);

impl<C: Structure, O> CObject<C, O> {
    fn new(c: C, own: O) -> CObject<C, O> {
        // SAFETY: `c` is a live value of this function.
        let handle = unsafe { C::handle(&c) };
        CObject { c: UnsafeCell::new(c), handle, own }
    }

    /// Makes one; it lives until [`free`](Self::free).
    pub(crate) fn leak(c: C, own: O) -> *mut C {
        Box::into_raw(Box::new(CObject::new(c, own))).cast()
    }

    /// Makes one where there is room for it already.
    ///
    /// # Safety
    /// `place` is a boxed place for this type that nothing is in.
    pub(crate) unsafe fn write(place: *mut C, c: C, own: O) {
        // SAFETY: the contract of `write`: `place` is a boxed place for this type that nothing is in.
        unsafe { place.cast::<Self>().write(CObject::new(c, own)) };
    }

    /// Our part of an object that a program gave us: ENOENT if the program has changed its handle.
    ///
    /// # Safety
    /// Null, or from [`leak`](Self::leak) with these types and not freed.
    #[inline]
    pub(crate) unsafe fn of<'a>(c: *mut C) -> Result<&'a O, Errno> {
        // SAFETY: the contract of `of`: null, or from [`leak`](Self::leak) with these types and not freed.
        unsafe {
            let own = Self::whatever_handle(c)?;
            if C::handle(c) == (*c.cast::<Self>()).handle { Ok(own) } else { Err(Errno::NOENT) }
        }
    }

    /// The same for calls that a driver serves without the kernel and so without the handle, such as posting and polling.
    ///
    /// # Safety
    /// As [`of`](Self::of).
    #[inline]
    pub(crate) unsafe fn whatever_handle<'a>(c: *mut C) -> Result<&'a O, Errno> {
        if c.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the contract of `whatever_handle`, which is that of `of`. Only our part is referred to, which
        // nobody changes.
        Ok(unsafe { &(*c.cast::<Self>()).own })
    }

    /// # Safety
    /// From [`leak`](Self::leak) with these types, and never used again.
    pub(crate) unsafe fn free(c: *mut C) {
        // SAFETY: the contract of `free`: from [`leak`](Self::leak) with these types, and never used again.
        drop(unsafe { Box::from_raw(c.cast::<Self>()) });
    }
}

/// Counts events that a program has acknowledged, in the field of its structure that it may read.
///
/// # Safety
/// A field of an object that exists.
pub(crate) unsafe fn count_acknowledged(field: *mut u32, count: u32) {
    // SAFETY: the contract of `count_acknowledged`: a field of an object that exists; the field is aligned as its
    // structure is.
    unsafe { AtomicU32::from_ptr(field) }.fetch_add(count, Relaxed);
}

/// A number for the `handle` of an object: for people who read dumps.
pub(crate) fn next_handle() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// A pointer that may cross threads: it is dereferenced only while its object is known to exist.
pub(crate) struct ObjectPointer<T>(pub(crate) *mut T);

// SAFETY: it is only a number; a lock of the table that holds it guards every dereference.
unsafe impl<T> Send for ObjectPointer<T> {}

//! The primitives of [`gate`](crate::gate). The model check compiles the same gate against loom's versions of
//! them, so they have their own module.

pub(crate) use core::sync::atomic::AtomicU32;

/// `core::cell::UnsafeCell` with the interface of loom's.
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(core::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(core::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// Waits a moment: spins at first, since a pin lasts one copy, then yields.
pub(crate) fn pause(round: u32) {
    if round < 64 {
        core::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

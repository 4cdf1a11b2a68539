//! The primitives of the protocols: [`cells`](crate::cells), [`state`](crate::state),
//! [`hazard`](crate::hazard), [`record`](crate::record), [`sleep`](crate::sleep). The model checks compile
//! the same files against loom's versions of them, so they have their own module.

pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, compiler_fence, fence};

/// Waits a moment: spins at first, then yields.
pub(crate) fn pause(round: u32) {
    if round < 64 {
        core::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// Orders a sequentially consistent read-modify-write before the sequentially consistent loads that follow
/// it. There is nothing to do, since the language does. (loom knows such an order only of fences.)
#[inline(always)]
pub(crate) fn rmw_before_loads() {}

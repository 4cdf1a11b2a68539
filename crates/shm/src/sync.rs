//! The primitives of the protocols: [`cells`](crate::cells), [`state`](crate::state),
//! [`hazard`](crate::hazard), [`record`](crate::record), [`sleep`](crate::sleep). The model checks compile the same files
//! against loom's versions of them, which is why they have a module of their own.

pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, compiler_fence, fence};

/// Lets others run while we wait for them. Spins first, then yields.
pub(crate) fn pause(round: u32) {
    if round < 64 {
        core::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// Orders a sequentially consistent read-modify-write before the sequentially consistent loads
/// that follow it: nothing to do, since the language does. (loom knows such an order of fences only.)
#[inline(always)]
pub(crate) fn rmw_before_loads() {}

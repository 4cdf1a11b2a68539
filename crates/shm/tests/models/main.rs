//! Model checks: every interleaving of small cases, with the reorderings that the memory model
//! allows. The files are the library's own, compiled here against loom's atomics.
//!
//! loom has no membarrier, and knows an order of sequentially consistent operations only of fences. Where the
//! library relies on those, the model has a fence.

mod sync {
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, fence};

    std::thread_local! {
        static HAS_BARRIERS: core::cell::Cell<bool> = const { core::cell::Cell::new(true) };
    }

    /// In the library a membarrier of the other end turns this fence into a full one.
    pub(crate) fn compiler_fence(order: core::sync::atomic::Ordering) {
        if HAS_BARRIERS.get() {
            fence(order);
        }
    }

    /// Calls `run` while the other end has no barriers. (All threads of a model run in one thread.)
    pub(crate) fn without_barriers(run: impl FnOnce()) {
        HAS_BARRIERS.set(false);
        run();
        HAS_BARRIERS.set(true);
    }

    /// Tells the model that another thread must run first.
    pub(crate) fn pause(_round: u32) {
        loom::thread::yield_now();
    }

    pub(crate) fn rmw_before_loads() {
        fence(core::sync::atomic::Ordering::SeqCst);
    }
}

mod sys {
    pub(crate) fn barrier_everywhere() -> bool {
        crate::sync::fence(core::sync::atomic::Ordering::SeqCst);
        true
    }
}

#[path = "../../src/cells.rs"]
mod cells;
#[path = "../../src/hazard.rs"]
mod hazard;
#[path = "../../src/record.rs"]
mod record;
#[path = "../../src/sleep.rs"]
#[allow(dead_code, reason = "the end of a rest is no part of a model")]
mod sleep;
#[path = "../../src/state.rs"]
#[allow(unreachable_pub, dead_code, reason = "public in the library")]
mod state;

mod decisions;
mod hazards;
mod naps;
mod records;
mod rings;

/// Runs `body` under the model; a bound on preemptions keeps the number of interleavings in the thousands.
fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}

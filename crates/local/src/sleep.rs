//! Sleeping without missing a frame, at the price of a compiler fence per frame.
//!
//! ```text
//!   sender                                     sleeper
//!   commit the frame                           asleep := odd
//!   light fence (for the compiler)             barrier in every process that sends
//!   asleep odd? ─► wake                        look at all lanes again, then block
//! ```
//!
//! This is Dekker's pattern: both store, then both load, and at least one must see the other's store.
//! It takes a full fence on both ends; but a fence costs a sender some 20 ns with every frame,
//! and there are many more frames than naps. So the sleeper pays for both: membarrier(2)
//! with `MEMBARRIER_CMD_GLOBAL_EXPEDITED` makes every processor that runs a thread of a
//! registered process go through a full fence before it returns. Wherever in its code the
//! sender was then, either its store was before that, and the sleeper sees the frame, or its
//! load comes after, and it sees the flag.
//!
//! Every process that sends registers when its first link is made. Where that is refused (an old
//! kernel, a filter of system calls) its senders use real fences. Where the sleeper's call
//! is refused, its export says so when it is made, and all its senders use real fences.
//!
//! The flag counts, so that senders wake a sleeper once per nap: each process remembers the nap that
//! it has ended. A sleeper looks at all lanes in each nap between saying so and
//! blocking, so a frame for which nobody was woken because somebody had been already is seen then
//! at the latest.
//!
//! `tests/models/naps.rs` checks the pattern with full fences; loom knows no membarrier, which
//! the model has to represent by a full fence at either end.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::sync::{AtomicU32, compiler_fence, fence};
use crate::sys;

/// Sets the word to an odd or an even number. Whether the sleeper may block.
pub(crate) fn set_asleep(word: &AtomicU32, asleep: bool, full_fences: bool) -> bool {
    let before = word.load(Relaxed);
    if (before & 1 == 1) != asleep {
        word.store(before.wrapping_add(1), Relaxed);
    }
    if !asleep {
        return true;
    }
    fence(SeqCst);
    full_fences || sys::barrier_everywhere()
}

/// Asked by a sender that has committed a frame: whether it has to wake the owner of `word`.
/// `ended` is the nap that this process ended last.
#[inline(always)]
pub(crate) fn must_wake(word: &AtomicU32, ended: &AtomicU32, full_fences: bool) -> bool {
    if full_fences {
        fence(SeqCst);
    } else {
        compiler_fence(SeqCst);
    }
    let nap = word.load(Relaxed);
    nap & 1 == 1 && ended.swap(nap, Relaxed) != nap
}

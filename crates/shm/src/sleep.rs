//! Sleeping without missing a frame, at the price of a compiler fence per frame.
//!
//! ```text
//!   sender                                     sleeper
//!   commit the frame                           set ASLEEP
//!   light fence (for the compiler)             barrier in every process that sends
//!   ASLEEP? ─► wake                            look at all lanes again, then block
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
//! A barrier in other processes is a system call, though, which interrupts their processors. A sleeper that sleeps
//! between any two messages sets another bit, [`FENCES`], at the first of these naps, and leaves it. That nap still
//! takes the barrier, after which every sender sees the bit or has its frame seen; for the naps that follow, senders
//! pay with a full fence.
//!
//! The word counts naps, so that senders wake a sleeper once per nap: each process remembers the nap that
//! it has ended. A sleeper looks at all lanes in each nap between saying so and
//! blocking, so a frame for which nobody was woken because somebody had been already is seen then
//! at the latest.
//!
//! `tests/models/naps.rs` checks the pattern with full fences; loom knows no membarrier, which
//! the model has to represent by a full fence at either end.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::sync::{AtomicU32, compiler_fence, fence};
use crate::sys;

/// The owner of the word sleeps, or is about to.
pub(crate) const ASLEEP: u32 = 1;
/// Senders fence: the owner sleeps often.
const FENCES: u32 = 2;
/// Each nap adds this to the word.
const NAP: u32 = 4;

/// The owner is about to sleep; `often` if it will again very soon. Whether it may block.
pub(crate) fn fall_asleep(word: &AtomicU32, often: bool, full_fences: bool) -> bool {
    let before = word.load(Relaxed);
    let fenced = full_fences || (often && before & FENCES != 0);
    let number = if before & ASLEEP == 0 { before.wrapping_add(NAP) } else { before } & !(NAP - 1);
    let nap = number | ASLEEP | if often { FENCES } else { 0 };
    word.store(nap, Relaxed);
    fence(SeqCst);
    if fenced || sys::barrier_everywhere() {
        return true;
    }
    word.store(nap & !FENCES, Relaxed);
    false
}

/// The owner is awake.
pub(crate) fn wake_up(word: &AtomicU32) {
    word.store(word.load(Relaxed) & !ASLEEP, Relaxed);
}

/// The owner is awake, and will be for long: senders need not fence.
pub(crate) fn stay_awake(word: &AtomicU32) {
    word.store(word.load(Relaxed) & !(ASLEEP | FENCES), Relaxed);
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
    word.load(Relaxed) & (ASLEEP | FENCES) != 0 && is_nap_of_ours_to_end(word, ended)
}

#[inline]
fn is_nap_of_ours_to_end(word: &AtomicU32, ended: &AtomicU32) -> bool {
    fence(SeqCst);
    let nap = word.load(Relaxed);
    nap & ASLEEP != 0 && ended.swap(nap, Relaxed) != nap
}

//! Sleeping without missing a frame, at the price of a compiler fence per frame.
//!
//! ```text
//!   sender                                     sleeper
//!   commit the frame                           set ASLEEP
//!   light fence (for the compiler)             barrier in every process that sends
//!   ASLEEP? ─► wake                            poll all lanes again, then block
//! ```
//!
//! This is Dekker's pattern: both store, then both load, and at least one must see the other's store. It
//! needs a full fence on both ends. But a fence costs a sender time with every frame, and there are many more
//! frames than naps. So the sleeper pays for both. membarrier(2) with `MEMBARRIER_CMD_GLOBAL_EXPEDITED` makes
//! every processor that runs a thread of a registered process execute a full fence before it returns. If the
//! sender's store happened before that fence, the sleeper sees the frame. Otherwise the sender's load comes
//! later, and it sees the flag.
//!
//! Every process that sends registers when its first link is made. If the kernel refuses that (an old kernel,
//! a filter of system calls), its senders use real fences. If the kernel refuses the sleeper's call, the
//! sleeper's export records that when it is made, and all its senders use real fences.
//!
//! A barrier in other processes is a system call, though, and it interrupts their processors. A sleeper that
//! sleeps between any two messages sets another bit, [`FENCES`], at the first of these naps, and leaves it
//! set. That nap still issues the barrier. After it every sender either sees the bit or has its frame seen.
//! During the following naps the senders pay with a full fence.
//!
//! The word counts naps, so that senders wake a sleeper once per nap: each process remembers the last nap
//! that it has ended. In each nap a sleeper polls all lanes between the announcement and blocking. That poll
//! finds any frame whose sender did not wake it because this nap had been ended already.
//!
//! A program may also poll memory that its peers WRITE, and no frame tells it. A second word is for it: processes
//! that change the owner's memory look at that word afterwards, as senders of frames look at the first one. The
//! owner cannot know which memory the program looks at. So it announces a nap first, the program looks once more,
//! and then the nap begins.
//!
//! `tests/models/naps.rs` checks the pattern with full fences. loom has no membarrier, so the model
//! represents it by a full fence at either end.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crate::sync::{AtomicU32, compiler_fence, fence};
use crate::sys;

/// The owner of the word sleeps, or is about to.
const ASLEEP: u32 = 1;
/// Senders must fence: the owner sleeps often.
const FENCES: u32 = 2;
/// The increment of the word for each nap.
const NAP: u32 = 4;

/// The owner is about to sleep; `often` if it will again very soon. Returns true if it may block.
pub(crate) fn fall_asleep(word: &AtomicU32, often: bool, full_fences: bool) -> bool {
    let before = word.load(Relaxed);
    let number = if before & ASLEEP == 0 { before.wrapping_add(NAP) } else { before };
    begin_nap(word, before, number, often, full_fences)
}

/// The owner is about to begin another nap, whether the one before has ended or not. Returns true if it may block. Another
/// thread of the owner may sleep in the nap before: the word never tells that nobody does.
pub(crate) fn fall_asleep_again(word: &AtomicU32, full_fences: bool) -> bool {
    let before = word.load(Relaxed);
    begin_nap(word, before, before.wrapping_add(NAP), true, full_fences)
}

fn begin_nap(word: &AtomicU32, before: u32, number: u32, often: bool, full_fences: bool) -> bool {
    let fenced = full_fences || (often && before & FENCES != 0);
    let nap = number & !(NAP - 1) | ASLEEP | if often { FENCES } else { 0 };
    word.store(nap, Relaxed);
    fence(SeqCst);
    if fenced || sys::barrier_everywhere() {
        return true;
    }
    word.store(nap & !FENCES, Relaxed);
    false
}

/// Whether the owner sleeps, or is about to.
#[inline(always)]
pub(crate) fn is_asleep(word: &AtomicU32) -> bool {
    word.load(Relaxed) & ASLEEP != 0
}

/// The owner is awake.
pub(crate) fn wake_up(word: &AtomicU32) {
    word.store(word.load(Relaxed) & !ASLEEP, Relaxed);
}

/// The owner is awake, and will be for long: senders need no fence.
pub(crate) fn stay_awake(word: &AtomicU32) {
    word.store(word.load(Relaxed) & !(ASLEEP | FENCES), Relaxed);
}

/// True if a sender that has committed a frame must wake the owner of `word`. `ended` is the last nap that
/// this process has ended.
#[inline(always)]
pub(crate) fn must_wake(word: &AtomicU32, ended: &AtomicU32, full_fences: bool) -> bool {
    if full_fences {
        fence(SeqCst);
    } else {
        compiler_fence(SeqCst);
    }
    word.load(Relaxed) & (ASLEEP | FENCES) != 0 && ends_nap(word, ended)
}

#[inline]
fn ends_nap(word: &AtomicU32, ended: &AtomicU32) -> bool {
    fence(SeqCst);
    let nap = word.load(Relaxed);
    nap & ASLEEP != 0 && ended.swap(nap, Relaxed) != nap
}

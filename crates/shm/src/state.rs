//! The decision whether a link is used: one word, decided once, the same for both ends.
//!
//! ```text
//!   0 ── confirm of one ─► 1 or 2 ── confirm of the other ─► 3: up, for ever
//!   └──────── either gives up ──────┴──► failed, for ever
//! ```
//!
//! Every change is a compare-and-swap from a state that is not final, so there is one first final state. An
//! end that dies has confirmed or has not. The other end decides by giving up, which has no effect if the
//! link is up already.

use core::sync::atomic::Ordering::{AcqRel, Acquire};

use crate::sync::AtomicU32;

/// The end of a link that a process is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkSide {
    /// The process made the link and asked to be introduced.
    Asked,
    /// The link was offered to it.
    Offered,
    /// The process is both ends: a link to itself.
    Both,
}

impl LinkSide {
    /// The other end.
    pub fn other(self) -> LinkSide {
        match self {
            LinkSide::Asked => LinkSide::Offered,
            LinkSide::Offered => LinkSide::Asked,
            LinkSide::Both => LinkSide::Both,
        }
    }

    /// The index of this end in arrays.
    #[inline]
    pub(crate) fn index(self) -> usize {
        match self {
            LinkSide::Asked | LinkSide::Both => 0,
            LinkSide::Offered => 1,
        }
    }

    /// The bits that this end adds to the word when it confirms.
    fn bits(self) -> u32 {
        match self {
            LinkSide::Asked => 0b01,
            LinkSide::Offered => 0b10,
            LinkSide::Both => BOTH,
        }
    }
}

/// The decision about a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Standing {
    /// There is no decision yet.
    Pending,
    /// The link is used.
    Up,
    /// The link is never used.
    Failed,
}

const BOTH: u32 = 0b11;
const FAILED: u32 = 0b100;

/// The decision that the word holds.
pub(crate) fn standing(word: &AtomicU32) -> Standing {
    decode(word.load(Acquire))
}

/// Confirms for one end. Returns the decision after that.
pub(crate) fn confirm(word: &AtomicU32, side: LinkSide) -> Standing {
    advance(word, |state| state | side.bits())
}

/// Ends one end's wait. Returns the decision: up or failed.
pub(crate) fn give_up(word: &AtomicU32) -> Standing {
    advance(word, |_| FAILED)
}

fn decode(state: u32) -> Standing {
    match state {
        0..BOTH => Standing::Pending,
        BOTH => Standing::Up,
        _ => Standing::Failed,
    }
}

fn advance(word: &AtomicU32, next: impl Fn(u32) -> u32) -> Standing {
    let mut state = word.load(Acquire);
    // An honest peer changes the word at most once more. If a peer keeps changing it, the link fails.
    for _ in 0..16 {
        if decode(state) != Standing::Pending {
            return decode(state);
        }
        match word.compare_exchange(state, next(state), AcqRel, Acquire) {
            Ok(_) => return decode(next(state)),
            Err(found) => state = found,
        }
    }
    Standing::Failed
}

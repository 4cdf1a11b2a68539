//! What a thread needs while it works for the engine: kept per thread, made at first use.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use transport::Time;

use crate::engine::look::Place;
use crate::engine::rest::Rest;
use crate::path::dispatch::Seen;
use crate::qp::entry::QpEntry;
use crate::qp::host::Outcome;
use crate::wire::staging::Staging;

thread_local! {
    static KEPT: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Work under way in one thread.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Packets that are about to leave.
    pub(crate) staging: Staging,
    /// What queue pairs have asked for while they were locked.
    pub(crate) outcome: Outcome,
    /// Queue pairs that may have something to send.
    pub(crate) touched: VecDeque<Arc<QpEntry>>,
    /// The links to peers on this host, as this thread saw them last.
    pub(crate) seen: Seen,
    /// Doorbells that this thread has rung in succession, of any queue pair, with no poll that found nothing between.
    pub(crate) rung: u32,
    /// When the last of them was rung, and how many polls had found nothing until then.
    last_ring: (Time, u64),
    /// How this thread waits.
    pub(crate) rest: Rest,
    /// The socket whose turn it is.
    pub(crate) place: Place,
    /// A list to swap with a shared one.
    pub(crate) spare: Vec<Arc<QpEntry>>,
}

/// Doorbells further apart than this are no succession.
const SUCCESSION: Duration = Duration::from_micros(50);

impl Scratch {
    /// A doorbell is rung; so many polls have found nothing so far.
    #[inline]
    pub(crate) fn ring(&mut self, now: Time, empty_polls: u64) {
        let (last, empty_before) = std::mem::replace(&mut self.last_ring, (now, empty_polls));
        let goes_on = empty_polls == empty_before && now.since(last) <= SUCCESSION;
        self.rung = if goes_on { self.rung.saturating_add(1) } else { 1 };
    }

    /// Forgets what this thread remembers: the links in it hold descriptors.
    pub(crate) fn forget() {
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        drop(kept);
    }

    /// Lends this thread's scratch to `work`. A call from within (a waker that posts) gets
    /// one of its own; after a panic the scratch is not kept.
    #[inline]
    pub(crate) fn with<R>(work: impl FnOnce(&mut Scratch) -> R) -> R {
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        let mut scratch = kept.unwrap_or_default();
        let result = work(&mut scratch);
        // At a thread's end there is no place to keep it.
        let _ = KEPT.try_with(|place| place.set(Some(scratch)));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_count_until_a_poll_finds_nothing() {
        let mut scratch = Scratch::default();
        let at = |us: u64| Time(1_000_000_000) + Duration::from_micros(us);
        (0..10).for_each(|us| scratch.ring(at(us), 5));
        assert_eq!(scratch.rung, 10);
        scratch.ring(at(10), 6);
        assert_eq!(scratch.rung, 1, "somebody waits for what comes next");
        scratch.ring(at(11), 6);
        assert_eq!(scratch.rung, 2);
        scratch.ring(at(1000), 6);
        assert_eq!(scratch.rung, 1, "that is no succession");
    }
}

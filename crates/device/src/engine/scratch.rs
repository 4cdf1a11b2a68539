//! The working memory of one thread, kept in the thread and made at its first use.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use transport::Time;

use crate::engine::rest::RestPolicy;
use crate::path::shm_poll::{AckCountdown, LaneView};
use crate::path::wire_flush::SendRight;
use crate::qp::entry::QpEntry;
use crate::qp::host::Notices;
use crate::wire::staging::Staging;

thread_local! {
    static KEPT: Cell<Option<Box<ThreadScratch>>> = const { Cell::new(None) };
}

/// See the module.
#[derive(Default)]
pub(crate) struct ThreadScratch {
    pub(crate) path: PathScratch,
    /// The links to peers on this host, as this thread saw them last.
    pub(crate) lanes: LaneView,
    pub(crate) doorbells: Succession,
    /// The way in which this thread waits.
    pub(crate) rest: RestPolicy,
    pub(crate) sockets: SocketCursor,
}

/// The part that sending and receiving use.
#[derive(Default)]
pub(crate) struct PathScratch {
    /// Packets that are about to leave.
    pub(crate) staging: Staging<SendRight>,
    pub(crate) notices: Notices,
    /// Queue pairs that may have something to send.
    pub(crate) ready: VecDeque<Arc<QpEntry>>,
    /// The time until deferred ACKs leave as frames.
    pub(crate) acks: AckCountdown,
    /// A list to exchange with a shared one.
    pub(crate) spare: VecDeque<Arc<QpEntry>>,
}

/// The doorbells that one thread has rung in succession, of any queue pairs, without an empty poll between them.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    pub(crate) count: u32,
    /// The time of the last one, and the number of empty polls until then.
    last: (Time, u64),
}

/// Doorbells further apart than this are no succession.
const MAX_GAP: Duration = Duration::from_micros(50);

impl Succession {
    /// Counts a doorbell that is rung after this many empty polls.
    #[inline]
    pub(crate) fn ring(&mut self, now: Time, empty_polls: u64) {
        let (last, empty_before) = std::mem::replace(&mut self.last, (now, empty_polls));
        let continues = empty_polls == empty_before && now.since(last) <= MAX_GAP;
        self.count = if continues { self.count.saturating_add(1) } else { 1 };
    }
}

/// The most polls of the same socket in a row by one thread.
const MAX_STAY: u32 = 16;

/// The socket that one thread polls next.
#[derive(Debug, Default)]
pub(crate) struct SocketCursor {
    pub(crate) position: usize,
    stayed: u32,
}

impl SocketCursor {
    /// Moves to the next socket.
    pub(crate) fn advance(&mut self) {
        (self.position, self.stayed) = (self.position.wrapping_add(1), 0);
    }

    /// Stays with a socket that has brought something, but not for ever.
    pub(crate) fn stay(&mut self) {
        self.stayed += 1;
        if self.stayed >= MAX_STAY {
            self.advance();
        }
    }
}

impl ThreadScratch {
    /// Drops the scratch of the calling thread: the links in it hold descriptors.
    pub(crate) fn forget() {
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        drop(kept);
    }

    /// Lends the scratch of the calling thread to `work`. A nested call (by a waker that posts) gets one of its own.
    /// After a panic the scratch is not kept.
    #[inline]
    pub(crate) fn with<R>(work: impl FnOnce(&mut ThreadScratch) -> R) -> R {
        let kept = KEPT.try_with(Cell::take).ok().flatten();
        let mut scratch = kept.unwrap_or_default();
        let result = work(&mut scratch);
        // While the thread ends it cannot be kept.
        let _ = KEPT.try_with(|place| place.set(Some(scratch)));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doorbells_count_until_a_poll_finds_nothing() {
        let mut doorbells = Succession::default();
        let at = |us: u64| Time(1_000_000_000) + Duration::from_micros(us);
        (0..10).for_each(|us| doorbells.ring(at(us), 5));
        assert_eq!(doorbells.count, 10);
        doorbells.ring(at(10), 6);
        assert_eq!(doorbells.count, 1, "the application waits for what comes next");
        doorbells.ring(at(11), 6);
        assert_eq!(doorbells.count, 2);
        doorbells.ring(at(1000), 6);
        assert_eq!(doorbells.count, 1, "that is not a succession");
    }

    #[test]
    fn a_thread_stays_where_packets_arrive_and_not_for_ever() {
        let mut cursor = SocketCursor::default();
        (1..MAX_STAY).for_each(|_| cursor.stay());
        assert_eq!(cursor.position, 0);
        cursor.stay();
        assert_eq!(cursor.position, 1);
        cursor.stay();
        cursor.advance();
        assert_eq!((cursor.position, cursor.stayed), (2, 0));
    }
}

//! Whether the polling thread has stood still.
//!
//! A request carries the time that its caller has left, counted from its arrival: two hosts share no clock. The server sees
//! an arrival when it looks. A process that is stopped, or a handler that blocks the thread, delays that. So requests that are
//! found after a long gap count as if they had arrived when it began.

use std::time::{Duration, Instant};

/// After this time without a look, a withdrawal may lie behind a request: the thread looks before it runs the handler.
const GAP: Duration = Duration::from_millis(1);
/// A thread that sleeps looks more often than this.
const STALL: Duration = Duration::from_millis(150);
/// Requests that the network held back may come for this time after a stall.
const AFTERMATH: Duration = Duration::from_millis(100);

/// The looks of a thread at its completions.
pub(crate) struct StallWatch {
    looked_at: Instant,
    /// The length of the last stall, and the end of its aftermath.
    stall: Option<(Duration, Instant)>,
}

impl StallWatch {
    pub(crate) fn new(now: Instant) -> StallWatch {
        StallWatch { looked_at: now, stall: None }
    }

    /// The thread looks now.
    pub(crate) fn look(&mut self, now: Instant) {
        let gap = now.saturating_duration_since(self.looked_at);
        if gap >= STALL {
            self.stall = Some((gap, now + AFTERMATH));
        } else if self.stall.is_some_and(|(_, until)| now >= until) {
            self.stall = None;
        }
        self.looked_at = now;
    }

    /// True if the last look was long ago.
    pub(crate) fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.looked_at) >= GAP
    }

    /// The longest time for which a request that is found now may have waited unseen.
    pub(crate) fn unseen(&self) -> Duration {
        self.stall.map_or(Duration::ZERO, |(gap, _)| gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_gap_is_a_stall_and_it_is_forgotten() {
        let start = Instant::now();
        let mut watch = StallWatch::new(start);
        watch.look(start + STALL / 2);
        assert_eq!(watch.unseen(), Duration::ZERO);
        let after = start + STALL / 2 + STALL * 3;
        assert!(watch.is_old(after));
        watch.look(after);
        assert_eq!((watch.unseen(), watch.is_old(after)), (STALL * 3, false));
        watch.look(after + AFTERMATH / 2);
        assert_eq!(watch.unseen(), STALL * 3, "more requests may come");
        watch.look(after + AFTERMATH);
        assert_eq!(watch.unseen(), Duration::ZERO);
    }
}

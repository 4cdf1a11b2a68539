//! Whether the polling thread has stood still.
//!
//! A request carries the time that its caller has left, counted from its arrival: two hosts share no clock. The server sees
//! an arrival when it looks. A process that is stopped, a processor that others use, or a handler that blocks the thread
//! delays that. So requests that are found after a gap count as if they had arrived when it began.

use std::time::{Duration, Instant};

/// After this time without a look, a withdrawal may lie behind a request: the thread looks before it runs the handler.
const GAP: Duration = Duration::from_millis(1);
/// A gap that is longer than the thread meant to sleep, by this, is a stall.
const GRACE: Duration = Duration::from_millis(2);
/// Requests that the network held back may come for half of the stall, or for this time if that is shorter.
const AFTERMATH: Duration = Duration::from_millis(100);
/// The longest sleep of a thread whose clients set deadlines: shorter stalls go unseen while it sleeps.
const WATCHFUL_SLEEP: Duration = Duration::from_millis(10);
/// Clients that have set no deadline for this time set none.
const WATCHFUL: Duration = Duration::from_secs(10);

/// A time without looks that was longer than the thread meant.
#[derive(Clone, Copy)]
struct Stall {
    began: Instant,
    gap: Duration,
    /// The end of its aftermath.
    until: Instant,
}

/// The looks of a thread at its completions.
pub(crate) struct StallWatch {
    looked_at: Instant,
    /// The time for which the thread meant to sleep since its last look.
    sleep: Duration,
    last_stall: Option<Stall>,
    /// The last request with a deadline.
    deadline_at: Option<Instant>,
}

impl StallWatch {
    pub(crate) fn new(now: Instant) -> StallWatch {
        StallWatch { looked_at: now, sleep: Duration::ZERO, last_stall: None, deadline_at: None }
    }

    /// The thread looks now.
    pub(crate) fn look(&mut self, now: Instant) {
        let gap = now.saturating_duration_since(self.looked_at);
        if gap >= self.sleep + GRACE {
            let until = now + (gap / 2).min(AFTERMATH);
            self.last_stall = Some(Stall { began: self.looked_at, gap, until });
        } else if self.last_stall.is_some_and(|stall| now >= stall.until) {
            self.last_stall = None;
        }
        (self.looked_at, self.sleep) = (now, Duration::ZERO);
    }

    /// The thread is about to sleep, for at most `longest`. Returns the time for which it may.
    pub(crate) fn before_sleep(&mut self, longest: Duration) -> Duration {
        let is_watchful = self.deadline_at.is_some_and(|at| self.looked_at.saturating_duration_since(at) < WATCHFUL);
        self.sleep = if is_watchful { longest.min(WATCHFUL_SLEEP) } else { longest };
        self.sleep
    }

    /// True if the last look was long ago.
    pub(crate) fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.looked_at) >= GAP
    }

    /// The moment by which the deadline of a request is judged: `now`, and the longest time for which it may have waited
    /// unseen before it was found at `found`.
    pub(crate) fn judged_at(&mut self, found: Instant, now: Instant) -> Instant {
        self.deadline_at = Some(now);
        let unseen = |stall: Stall| found.saturating_duration_since(stall.began).min(stall.gap);
        now + self.last_stall.map_or(Duration::ZERO, unseen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// Long after any stall.
    const LATER: Duration = Duration::from_secs(1);

    #[test]
    fn a_gap_is_a_stall_and_it_is_forgotten() {
        let start = Instant::now();
        let mut watch = StallWatch::new(start);
        watch.look(start + MS);
        assert_eq!(watch.judged_at(start + MS, start + MS), start + MS);
        for gap in [GRACE, 20 * MS, 400 * MS] {
            let began = watch.looked_at;
            let after = began + gap;
            assert!(watch.is_old(after));
            watch.look(after);
            assert!(!watch.is_old(after));
            assert_eq!(watch.judged_at(after, after), after + gap, "it may have arrived when the gap began");
            let later = after + (gap / 2).min(AFTERMATH);
            while watch.looked_at + MS < later {
                watch.look(watch.looked_at + MS);
                assert_eq!(watch.judged_at(later, later), later + gap, "more requests may come");
            }
            watch.look(later);
            assert_eq!(watch.judged_at(later, later), later);
            watch = StallWatch::new(later + LATER);
        }
    }

    #[test]
    fn a_request_that_was_found_before_the_stall_has_waited_for_that_time_only() {
        let start = Instant::now();
        let mut watch = StallWatch::new(start);
        let after = start + 50 * MS;
        watch.look(after);
        assert_eq!(watch.judged_at(start, after), after);
        assert_eq!(watch.judged_at(start + 10 * MS, after), after + 10 * MS);
    }

    #[test]
    fn sleep_is_no_stall_and_deadlines_shorten_it() {
        let start = Instant::now();
        let mut watch = StallWatch::new(start);
        assert_eq!(watch.before_sleep(100 * MS), 100 * MS);
        let awake = start + 100 * MS;
        watch.look(awake);
        assert_eq!(watch.judged_at(awake, awake), awake, "it may have arrived just now");
        assert_eq!(watch.before_sleep(100 * MS), WATCHFUL_SLEEP);
        let stopped = awake + 50 * MS;
        watch.look(stopped);
        assert_eq!(watch.judged_at(stopped, stopped), stopped + 50 * MS, "it was to sleep for 10 ms");
        watch.look(stopped + WATCHFUL);
        assert_eq!(watch.before_sleep(100 * MS), 100 * MS, "deadlines are out of use");
    }
}

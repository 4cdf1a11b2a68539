//! A polling thread that waits for other threads gives its processor away, and sleeps once that has cost too much.
//!
//! A thread that gives its processor away stays runnable. A program of low priority may get it, and keeps it until the scheduler's next
//! tick. A thread that sleeps gets its processor back as soon as something wakes it.

use std::time::{Duration, Instant};

/// A thread that did not run for so long has lost its processor to another program.
const LOST: Duration = Duration::from_millis(3);
/// The time for which it sleeps in place after that.
const HOLD: Duration = Duration::from_millis(300);

/// The way to wait.
#[derive(Debug, Default)]
pub(crate) struct GivingWay {
    sleeps_until: Option<Instant>,
}

impl GivingWay {
    /// Whether the thread should sleep in place of giving way.
    pub(crate) fn should_sleep(&self, now: Instant) -> bool {
        self.sleeps_until.is_some_and(|until| now < until)
    }

    /// Gives the processor to a thread that is ready.
    pub(crate) fn give_way(&mut self) {
        let before = Instant::now();
        std::thread::yield_now();
        self.gave_way(before, Instant::now());
    }

    fn gave_way(&mut self, before: Instant, after: Instant) {
        if after.saturating_duration_since(before) >= LOST {
            self.sleeps_until = Some(after + HOLD);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_lost_its_processor_sleeps_for_a_while() {
        let (mut way, start) = (GivingWay::default(), Instant::now());
        way.gave_way(start, start + LOST / 2);
        assert!(!way.should_sleep(start + LOST / 2));
        let lost = start + LOST * 5;
        way.gave_way(start, lost);
        assert!(way.should_sleep(lost) && way.should_sleep(lost + HOLD / 2));
        assert!(!way.should_sleep(lost + HOLD));
    }
}

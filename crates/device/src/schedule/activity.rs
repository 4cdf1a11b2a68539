//! The application's behaviour: whether it drives the engine by polling, or sleeps until an event.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A program that sleeps polls a few times for each event that it arms. A program with this many polls for each
/// event does not sleep.
const POLLS_PER_ARMING: u64 = 32;

/// Counts of what the application's threads have done, together.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    polls: AtomicU64,
    /// Completions taken. Threads may overwrite each other's counts: only the order of magnitude matters.
    taken: AtomicU64,
    armings: AtomicU64,
    empty: AtomicU64,
}

/// The counts at one moment, to compare with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ActivitySnapshot {
    polls: u64,
    taken: u64,
    armings: u64,
}

impl Activity {
    /// Counts polls that have driven the engine. Only the thread with a receive side locked calls this.
    #[inline]
    pub(crate) fn polled(&self, polls: u64) {
        self.polls.store(self.polls.load(Relaxed) + polls, Relaxed);
    }

    /// Counts completions that the application has taken: while it handles them it does not poll, but it will.
    #[inline]
    pub(crate) fn took(&self, completions: u32) {
        self.taken.store(self.taken.load(Relaxed) + u64::from(completions), Relaxed);
    }

    /// Counts a poll by whether it found something. Only the thread with a receive side locked calls this.
    #[inline]
    pub(crate) fn found(&self, something: bool) {
        self.empty.store(self.empty.load(Relaxed) + u64::from(!something), Relaxed);
    }

    /// The number of polls that found nothing.
    #[inline]
    pub(crate) fn empty_polls(&self) -> u64 {
        self.empty.load(Relaxed)
    }

    /// Counts the arming of a completion queue.
    pub(crate) fn armed(&self) {
        self.armings.fetch_add(1, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> ActivitySnapshot {
        ActivitySnapshot {
            polls: self.polls.load(Relaxed),
            taken: self.taken.load(Relaxed),
            armings: self.armings.load(Relaxed),
        }
    }

    /// Whether the application has driven the engine itself since a snapshot.
    ///
    /// It has done so with `least_polls` polls, unless it polls only around its events. If it waits for no events, the
    /// completions that it took count as well.
    #[inline]
    pub(crate) fn drives_since(&self, before: ActivitySnapshot, least_polls: u64) -> bool {
        let polls = self.polls.load(Relaxed).wrapping_sub(before.polls);
        let armings = self.armings.load(Relaxed).wrapping_sub(before.armings);
        if armings == 0 {
            return polls + self.taken.load(Relaxed).saturating_sub(before.taken) >= least_polls;
        }
        polls >= least_polls && polls >= armings.saturating_mul(POLLS_PER_ARMING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_alone_is_driving() {
        let activity = Activity::default();
        let before = activity.snapshot();
        assert!(!activity.drives_since(before, 2));
        activity.polled(1);
        assert!(!activity.drives_since(before, 2));
        activity.polled(1);
        assert!(activity.drives_since(before, 2));
        assert!(!activity.drives_since(activity.snapshot(), 1));
    }

    #[test]
    fn an_application_that_takes_completions_is_there() {
        let activity = Activity::default();
        let before = activity.snapshot();
        activity.took(3);
        assert!(activity.drives_since(before, 3) && !activity.drives_since(before, 4));
        activity.polled(1);
        assert!(activity.drives_since(before, 4));
        activity.took(1000);
        activity.armed();
        assert!(!activity.drives_since(before, 4), "it sleeps in between");
    }

    #[test]
    fn polling_around_events_is_not() {
        let activity = Activity::default();
        let before = activity.snapshot();
        for _ in 0..100 {
            activity.armed();
            (0..3).for_each(|_| activity.polled(1));
        }
        assert!(!activity.drives_since(before, 2));
        let before = activity.snapshot();
        activity.armed();
        (0..POLLS_PER_ARMING).for_each(|_| activity.polled(1));
        assert!(activity.drives_since(before, 2), "it arms now and then, and polls all the time");
    }
}

//! How the application behaves: whether it drives the engine by polling, or sleeps on events.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A program that sleeps polls a few times for each event that it arms; one that polls so
/// many times for each does not sleep.
const POLLS_PER_ARMING: u64 = 32;

/// What the application's threads have done so far, together.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    polls: AtomicU64,
    /// Completions taken. Threads may overwrite each other's: it is about how many.
    taken: AtomicU64,
    armings: AtomicU64,
    empty: AtomicU64,
}

/// A moment to compare with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Look {
    polls: u64,
    taken: u64,
    armings: u64,
}

impl Activity {
    /// So many polls have driven the engine. Only the holder of the receive side's lock calls this.
    #[inline]
    pub(crate) fn polled(&self, polls: u64) {
        self.polls.store(self.polls.load(Relaxed) + polls, Relaxed);
    }

    /// So many completions were taken: an application that is busy with them will be back.
    #[inline]
    pub(crate) fn took(&self, completions: u32) {
        self.taken.store(self.taken.load(Relaxed) + u64::from(completions), Relaxed);
    }

    /// Whether it found something that had arrived. Only the holder of the receive side's lock calls this.
    #[inline]
    pub(crate) fn found(&self, something: bool) {
        self.empty.store(self.empty.load(Relaxed) + u64::from(!something), Relaxed);
    }

    /// Polls so far that found nothing.
    #[inline]
    pub(crate) fn empty_polls(&self) -> u64 {
        self.empty.load(Relaxed)
    }

    /// A completion queue was armed.
    pub(crate) fn armed(&self) {
        self.armings.fetch_add(1, Relaxed);
    }

    pub(crate) fn look(&self) -> Look {
        Look { polls: self.polls.load(Relaxed), taken: self.taken.load(Relaxed), armings: self.armings.load(Relaxed) }
    }

    /// Whether the application has driven by itself since `look`: with at least so many polls, and not only around
    /// events; or, if it waits for none, with so many completions that it took.
    #[inline]
    pub(crate) fn drives_since(&self, look: Look, least_polls: u64) -> bool {
        let polls = self.polls.load(Relaxed).wrapping_sub(look.polls);
        let armings = self.armings.load(Relaxed).wrapping_sub(look.armings);
        if armings == 0 {
            return polls + self.taken.load(Relaxed).saturating_sub(look.taken) >= least_polls;
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
        let look = activity.look();
        assert!(!activity.drives_since(look, 2));
        activity.polled(1);
        assert!(!activity.drives_since(look, 2));
        activity.polled(1);
        assert!(activity.drives_since(look, 2));
        assert!(!activity.drives_since(activity.look(), 1));
    }

    #[test]
    fn an_application_that_takes_completions_is_there() {
        let activity = Activity::default();
        let look = activity.look();
        activity.took(3);
        assert!(activity.drives_since(look, 3) && !activity.drives_since(look, 4));
        activity.polled(1);
        assert!(activity.drives_since(look, 4));
        activity.took(1000);
        activity.armed();
        assert!(!activity.drives_since(look, 4), "it sleeps in between");
    }

    #[test]
    fn polling_around_events_is_not() {
        let activity = Activity::default();
        let look = activity.look();
        for _ in 0..100 {
            activity.armed();
            (0..3).for_each(|_| activity.polled(1));
        }
        assert!(!activity.drives_since(look, 2));
        let look = activity.look();
        activity.armed();
        (0..POLLS_PER_ARMING).for_each(|_| activity.polled(1));
        assert!(activity.drives_since(look, 2), "it arms now and then, and polls all the time");
    }
}

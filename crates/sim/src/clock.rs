//! Virtual time: a queue of events that moves the clock.
//!
//! Nothing here waits. Time jumps to the next event, and events of the same time come out in the
//! order in which they were scheduled. So a run depends on its seed alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use transport::Time;

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<E> Entry<E> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.number)
    }
}

/// The clock and everything that is yet to happen.
#[derive(Debug)]
pub(crate) struct Clock<E> {
    now: Time,
    scheduled: u64,
    events: BinaryHeap<Reverse<Entry<E>>>,
}

impl<E> Default for Clock<E> {
    fn default() -> Clock<E> {
        Clock { now: Time(0), scheduled: 0, events: BinaryHeap::new() }
    }
}

impl<E> Clock<E> {
    /// The time now.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Schedules `event`; the past counts as now.
    pub(crate) fn schedule(&mut self, at: Time, event: E) {
        self.scheduled += 1;
        self.events.push(Reverse(Entry { at: at.max(self.now), number: self.scheduled, event }));
    }

    /// Jumps to the next event. `None`: nothing will ever happen again.
    pub(crate) fn advance(&mut self) -> Option<E> {
        let Reverse(entry) = self.events.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }

    /// Events that have been scheduled since the beginning.
    pub(crate) fn scheduled(&self) -> u64 {
        self.scheduled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_then_of_scheduling() {
        let mut clock = Clock::default();
        for (at, name) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            clock.schedule(Time(at), name);
        }
        let order: Vec<(u64, char)> = std::iter::from_fn(|| {
            let event = clock.advance()?;
            Some((clock.now().0, event))
        })
        .collect();
        assert_eq!(order, [(1, 'a'), (2, 'b'), (5, 'c'), (5, 'd')]);
    }

    #[test]
    fn the_clock_never_goes_back() {
        let mut clock = Clock::default();
        clock.schedule(Time(10), 1);
        assert_eq!(clock.advance(), Some(1));
        clock.schedule(Time(3), 2);
        assert_eq!(clock.advance(), Some(2));
        assert_eq!(clock.now(), Time(10));
    }
}

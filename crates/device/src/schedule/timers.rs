//! Deadlines of queue pairs, kept lazily.
//!
//! A queue pair is entered when it gets a deadline earlier than the one it is entered with. It is not touched when the
//! deadline moves back, which happens with every ACK. When its entry comes up, the queue pair tells its real deadline.
//! So sending costs nothing here while nothing is lost.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;
use transport::Time;
use wire::Qpn;

/// Deadlines of queue pairs.
#[derive(Debug)]
pub(crate) struct Timers {
    heap: Mutex<BinaryHeap<Reverse<(Time, Qpn)>>>,
    earliest: AtomicU64,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { heap: Mutex::default(), earliest: AtomicU64::new(Time::NEVER.0) }
    }
}

impl Timers {
    /// Enters a deadline.
    pub(crate) fn insert(&self, at: Time, qpn: Qpn) {
        let mut heap = self.heap.lock();
        heap.push(Reverse((at, qpn)));
        self.publish(&heap);
    }

    /// Takes the earliest entry if it is due.
    pub(crate) fn pop_due(&self, now: Time) -> Option<(Time, Qpn)> {
        let mut heap = self.heap.lock();
        let Reverse((at, _)) = *heap.peek()?;
        if at > now {
            return None;
        }
        let entry = heap.pop().map(|Reverse(entry)| entry);
        self.publish(&heap);
        entry
    }

    /// The time of the earliest entry; `Time::NEVER` if there is none.
    #[inline]
    pub(crate) fn earliest(&self) -> Time {
        Time(self.earliest.load(SeqCst))
    }

    fn publish(&self, heap: &BinaryHeap<Reverse<(Time, Qpn)>>) {
        let earliest = heap.peek().map_or(Time::NEVER, |Reverse((at, _))| *at);
        self.earliest.store(earliest.0, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_up_in_order_and_not_early() {
        let timers = Timers::default();
        assert_eq!(timers.earliest(), Time::NEVER);
        for (at, qpn) in [(30, 3), (10, 1), (20, 2)] {
            timers.insert(Time(at), Qpn::new(qpn));
        }
        assert_eq!(timers.earliest(), Time(10));
        assert_eq!(timers.pop_due(Time(9)), None);
        assert_eq!(timers.pop_due(Time(25)), Some((Time(10), Qpn::new(1))));
        assert_eq!(timers.pop_due(Time(25)), Some((Time(20), Qpn::new(2))));
        assert_eq!(timers.pop_due(Time(25)), None);
        assert_eq!(timers.earliest(), Time(30));
    }
}

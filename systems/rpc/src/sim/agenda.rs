//! The virtual clock: what happens next, in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Things to happen, each at its nanosecond; those of one nanosecond in the order in which they were planned.
pub(crate) struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
    count: u64,
}

struct Entry<T> {
    at_ns: u64,
    count: u64,
    thing: T,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Agenda<T> {
        Agenda { heap: BinaryHeap::new(), count: 0 }
    }

    pub(crate) fn plan(&mut self, at_ns: u64, thing: T) {
        self.count += 1;
        self.heap.push(Reverse(Entry { at_ns, count: self.count, thing }));
    }

    /// The time of the next one.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.at_ns)
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, T)> {
        self.heap.pop().map(|Reverse(entry)| (entry.at_ns, entry.thing))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.count == other.count
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.count).cmp(&(other.at_ns, other.count))
    }
}

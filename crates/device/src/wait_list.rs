//! A first-in-first-out list that any thread may add to. Everything that waits for a turn stands in one of these.
//!
//! The length shows without the lock, so an empty list costs one load. The list does not know what waits in it; the
//! state word of a queue pair tells whether it is in a list.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use parking_lot::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct WaitList<T> {
    items: Mutex<VecDeque<T>>,
    len: AtomicU32,
}

impl<T> Default for WaitList<T> {
    fn default() -> WaitList<T> {
        WaitList { items: Mutex::default(), len: AtomicU32::new(0) }
    }
}

impl<T> WaitList<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len.load(SeqCst)
    }

    pub(crate) fn push(&self, item: T) {
        self.change(|items| items.push_back(item));
    }

    /// Adds an item unless `max` items are in the list. Whether it did.
    pub(crate) fn push_bounded(&self, item: T, max: usize) -> bool {
        self.change(|items| {
            let fits = items.len() < max;
            if fits {
                items.push_back(item);
            }
            fits
        })
    }

    pub(crate) fn extend(&self, more: impl IntoIterator<Item = T>) {
        self.change(|items| items.extend(more));
    }

    /// Hands the items to `each`, the first one first, until `may_pop` says no. No other thread changes the list
    /// meanwhile. `may_pop` is asked before each item.
    pub(crate) fn pop_while(&self, mut may_pop: impl FnMut() -> bool, mut each: impl FnMut(T)) {
        self.change(|items| {
            while !items.is_empty() && may_pop() {
                items.pop_front().into_iter().for_each(&mut each);
            }
        });
    }

    /// Removes the first item that `is_it` recognizes. Whether there was one.
    pub(crate) fn remove(&self, is_it: impl FnMut(&T) -> bool) -> bool {
        self.change(|items| items.iter().position(is_it).and_then(|place| items.remove(place)).is_some())
    }

    /// Takes all items; more may come meanwhile.
    pub(crate) fn take(&self) -> VecDeque<T> {
        self.change(std::mem::take)
    }

    /// Exchanges the items for those of another list, to use its memory again.
    pub(crate) fn swap(&self, other: &mut VecDeque<T>) {
        self.change(|items| std::mem::swap(items, other));
    }

    /// Puts items back before those that have come since.
    pub(crate) fn put_back(&self, mut first: VecDeque<T>) {
        self.change(|items| {
            first.append(items);
            *items = first;
        });
    }

    /// Changes the list, and publishes its length before its lock is free.
    #[inline]
    fn change<R>(&self, change: impl FnOnce(&mut VecDeque<T>) -> R) -> R {
        let mut items = self.items.lock();
        let result = change(&mut items);
        self.len.store(items.len() as u32, SeqCst);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_that_of_the_list() {
        let list = WaitList::default();
        assert!(list.is_empty());
        list.push(2);
        list.extend([3, 4]);
        assert_eq!(list.len(), 3);
        let mut taken = VecDeque::new();
        list.swap(&mut taken);
        assert_eq!((taken, list.is_empty()), (VecDeque::from([2, 3, 4]), true));
        list.push(5);
        list.put_back(VecDeque::from([1]));
        assert_eq!((list.len(), list.take(), list.len()), (2, VecDeque::from([1, 5]), 0));
    }

    #[test]
    fn a_bound_refuses_more() {
        let list = WaitList::default();
        assert!(list.push_bounded(1, 2) && list.push_bounded(2, 2) && !list.push_bounded(3, 2));
        assert_eq!(list.take(), [1, 2]);
        assert!(list.push_bounded(4, 1), "there is room again");
    }

    #[test]
    fn items_leave_in_order_or_by_themselves() {
        let list = WaitList::default();
        list.extend([1, 2, 3, 4]);
        assert!(list.remove(|item| *item == 2) && !list.remove(|item| *item == 2));
        let (mut turns, mut popped) = (0..2, Vec::new());
        list.pop_while(|| turns.next().is_some(), |item| popped.push(item));
        assert_eq!((popped.as_slice(), list.len()), ([1, 3].as_slice(), 1));
        list.pop_while(|| true, |item| popped.push(item));
        list.pop_while(|| unreachable!("the list is empty"), |_| ());
        assert_eq!((popped.as_slice(), list.is_empty()), ([1, 3, 4].as_slice(), true));
    }
}

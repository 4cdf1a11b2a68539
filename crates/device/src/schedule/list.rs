//! A list that any thread may add to. Its length shows without its lock, so an empty list costs one load.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use parking_lot::Mutex;

/// See the module.
#[derive(Debug)]
pub(crate) struct WaitList<T> {
    items: Mutex<Vec<T>>,
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
        self.change(|items| items.push(item));
    }

    pub(crate) fn extend(&self, more: impl IntoIterator<Item = T>) {
        self.change(|items| items.extend(more));
    }

    /// Exchanges the list for another one.
    pub(crate) fn swap(&self, list: &mut Vec<T>) {
        self.change(|items| std::mem::swap(items, list));
    }

    /// Puts items back before those that have come since.
    pub(crate) fn put_back(&self, mut first: Vec<T>) {
        self.change(|items| {
            first.append(items);
            *items = first;
        });
    }

    /// Changes the list, and publishes its length before its lock is free.
    #[inline]
    fn change(&self, change: impl FnOnce(&mut Vec<T>)) {
        let mut items = self.items.lock();
        change(&mut items);
        self.len.store(items.len() as u32, SeqCst);
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
        let mut taken = Vec::new();
        list.swap(&mut taken);
        assert_eq!((taken.as_slice(), list.is_empty()), ([2, 3, 4].as_slice(), true));
        list.push(5);
        list.put_back(vec![1]);
        list.swap(&mut taken);
        assert_eq!((taken.as_slice(), list.len()), ([1, 5].as_slice(), 3));
    }
}

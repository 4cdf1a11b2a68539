//! Lists of waiting tasks.

use std::collections::HashMap;
use std::task::Waker;

/// The wakers of waiting futures. Each future has one slot at most, however often it is polled.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    last: u64,
    wakers: HashMap<u64, Waker>,
}

/// A future's slot in a [`Waiters`] list.
#[derive(Debug, Default)]
pub(super) struct WaiterSlot(Option<u64>);

impl Waiters {
    /// Enters the waker of the future that has `slot`.
    pub(super) fn note(&mut self, slot: &mut WaiterSlot, waker: &Waker) {
        let key = *slot.0.get_or_insert_with(|| {
            self.last += 1;
            self.last
        });
        match self.wakers.get_mut(&key) {
            Some(known) => known.clone_from(waker),
            None => drop(self.wakers.insert(key, waker.clone())),
        }
    }

    /// Removes the future's waker.
    pub(super) fn forget(&mut self, slot: &WaiterSlot) {
        if let Some(key) = slot.0 {
            self.wakers.remove(&key);
        }
    }

    /// Takes all wakers. Callers wake them with no lock held.
    pub(super) fn take(&mut self) -> Vec<Waker> {
        self.wakers.drain().map(|(_, waker)| waker).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_future_has_one_slot_however_often_it_is_polled() {
        let (mut waiters, mut one, mut other) = (Waiters::default(), WaiterSlot::default(), WaiterSlot::default());
        for _ in 0..3 {
            waiters.note(&mut one, Waker::noop());
            waiters.note(&mut other, Waker::noop());
        }
        assert_eq!(waiters.wakers.len(), 2);
        waiters.forget(&other);
        assert_eq!(waiters.take().len(), 1);
        assert!(waiters.take().is_empty());
    }
}

//! The slots in which a server looks for requests: one at a time, and all of them now and then.
//!
//! The client takes the slot that has been free for the longest time. So the server knows where the next request comes: it
//! keeps the same queue of free slots. Only losses, and replies that overtake each other, bring requests elsewhere. (HERD
//! polls the next slot of each client in turn: Kalia et al., SIGCOMM 2014, section 4.2.)

use std::collections::VecDeque;

use crate::carrier::slots::SlotSet;

/// A look at all slots comes after this many at the expected one.
pub(crate) const SCAN_EVERY: u32 = 64;

/// The order in which a server looks at the slots of a session.
pub(crate) struct SlotOrder {
    all: SlotSet,
    /// Slots without a request, as the client frees them.
    free: VecDeque<u16>,
    /// Slots that the scan under way has not looked at.
    unscanned: SlotSet,
    looks: u32,
}

impl SlotOrder {
    pub(crate) fn new(slots: u16) -> SlotOrder {
        let mut all = SlotSet::default();
        (0..slots).for_each(|slot| all.insert(slot));
        SlotOrder { all, free: (0..slots).collect(), unscanned: SlotSet::default(), looks: 0 }
    }

    /// Looks for a request with `look`.
    pub(crate) fn find<T>(&mut self, mut look: impl FnMut(u16) -> Option<T>) -> Option<T> {
        if let Some(slot) = self.free.front().copied()
            && let Some(found) = look(slot)
        {
            self.free.pop_front();
            return Some(found);
        }
        if self.unscanned == SlotSet::default() {
            self.looks += 1;
            if self.looks < SCAN_EVERY {
                return None;
            }
            (self.looks, self.unscanned) = (0, self.all);
        }
        while let Some(slot) = self.unscanned.pop() {
            if let Some(found) = look(slot) {
                self.found_elsewhere(slot);
                return Some(found);
            }
        }
        None
    }

    /// The next request comes behind the one that was found; those that were expected before it are late or lost.
    fn found_elsewhere(&mut self, slot: u16) {
        if let Some(at) = self.free.iter().position(|free| *free == slot) {
            self.free.rotate_left(at);
            self.free.pop_front();
        }
    }

    /// A reply has been sent: the client frees the slot when it arrives.
    pub(crate) fn replied(&mut self, slot: u16) {
        if !self.free.contains(&slot) {
            self.free.push_back(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks needed until the request in `slot` is found.
    fn looks(order: &mut SlotOrder, slot: u16) -> u32 {
        let found = (1..).find(|_| order.find(|at| (at == slot).then_some(())).is_some());
        order.replied(slot);
        found.unwrap()
    }

    #[test]
    fn requests_in_the_clients_order_are_found_at_the_first_look() {
        let mut order = SlotOrder::new(8);
        assert!((0..100).all(|count| looks(&mut order, count % 8) == 1));
        // The reply of slot 5 overtakes that of slot 4: the client uses 5 before 4 from now on.
        let turn = [0, 1, 2, 3, 5, 4, 6, 7];
        for slot in 4..8 {
            looks(&mut order, slot);
        }
        for slot in [0, 1, 2, 3, 4, 5] {
            assert!(order.find(|at| (at == slot).then_some(())).is_some());
        }
        [0, 1, 2, 3, 5, 4].into_iter().for_each(|slot| order.replied(slot));
        looks(&mut order, 6);
        looks(&mut order, 7);
        assert!(turn.into_iter().cycle().take(80).all(|slot| looks(&mut order, slot) == 1));
    }

    #[test]
    fn a_scan_finds_a_request_behind_a_lost_one_and_those_behind_it_need_none() {
        let mut order = SlotOrder::new(8);
        assert_eq!(looks(&mut order, 1), SCAN_EVERY, "slot 0's request is lost");
        assert!([2, 3, 4, 5, 6, 7].into_iter().all(|slot| looks(&mut order, slot) == 1));
    }

    #[test]
    fn a_scan_finds_several_requests_without_waiting_for_the_next_scan() {
        let (mut order, mut waiting) = (SlotOrder::new(8), SlotSet::default());
        [3, 5, 7].into_iter().for_each(|slot| waiting.insert(slot));
        let mut found = Vec::new();
        for _ in 0..SCAN_EVERY + 2 {
            found.extend(order.find(|at| (waiting.contains(at)).then(|| (waiting.remove(at), at).1)));
        }
        assert_eq!(found, [3, 5, 7]);
    }
}

//! The slots of one work queue.

use std::task::Waker;

use transport::{Completion, CompletionOp, Status};

use super::{Loan, RequestKey};

/// The receiver of a request's completion.
#[derive(Debug)]
pub(crate) enum Delivery {
    /// The next poll of the completion queue.
    Poll,
    /// A future or a blocked thread, which wants this waker called.
    Waiter(Option<Waker>),
    /// Nobody, since the future was dropped.
    Nobody,
}

/// A request that the device has.
#[derive(Debug)]
pub(crate) struct LentRequest {
    pub(crate) loan: Loan,
    pub(crate) op: CompletionOp,
    pub(crate) signaled: bool,
    pub(crate) delivery: Delivery,
}

/// A request that the device is done with.
#[derive(Debug)]
pub(crate) struct FinishedRequest {
    pub(crate) completion: Completion,
    /// The request's operation. The device's completion does not name it after a failure.
    pub(crate) op: CompletionOp,
    pub(crate) loan: Loan,
}

impl FinishedRequest {
    pub(crate) fn is_ok(&self) -> bool {
        self.completion.status == Status::Success
    }
}

#[derive(Debug, Default)]
pub(crate) enum SlotState {
    #[default]
    Empty,
    Lent(LentRequest),
    Done(FinishedRequest),
}

#[derive(Debug, Default)]
struct RequestSlot {
    generation: u32,
    state: SlotState,
}

/// All slots of one queue. They are made as they are needed and used again.
#[derive(Debug)]
pub(crate) struct RequestSlots {
    queue: u32,
    slots: Vec<RequestSlot>,
    free: Vec<u32>,
    lent: u32,
}

impl RequestSlots {
    pub(crate) fn new(queue: u32) -> RequestSlots {
        RequestSlots { queue, slots: Vec::new(), free: Vec::new(), lent: 0 }
    }

    /// Requests that the device has.
    pub(crate) fn lent(&self) -> u32 {
        self.lent
    }

    /// True if `count` more slots are free. Finished requests whose result nobody has taken
    /// yet use slots too.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.free.len() + (RequestKey::MAX_SLOTS - self.slots.len()) >= count
    }

    pub(crate) fn insert(&mut self, lent: LentRequest) -> RequestKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(RequestSlot::default());
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[index as usize];
        slot.state = SlotState::Lent(lent);
        self.lent += 1;
        RequestKey::new(self.queue, index, slot.generation)
    }

    /// The state of a request; `None` if the key is stale.
    pub(crate) fn get_mut(&mut self, key: RequestKey) -> Option<&mut SlotState> {
        let slot = self.slots.get_mut(key.slot())?;
        (RequestKey::new(self.queue, key.slot() as u32, slot.generation) == key).then_some(&mut slot.state)
    }

    /// Takes a request out, in any state.
    pub(crate) fn remove(&mut self, key: RequestKey) -> Option<SlotState> {
        let state = std::mem::take(self.get_mut(key)?);
        self.lent -= u32::from(matches!(state, SlotState::Lent(_)));
        let slot = &mut self.slots[key.slot()];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.slot() as u32);
        Some(state)
    }

    /// Ends a lent request whose waiter will come for the result.
    pub(crate) fn finish(&mut self, key: RequestKey, done: FinishedRequest) {
        if let Some(state @ SlotState::Lent(_)) = self.get_mut(key) {
            *state = SlotState::Done(done);
            self.lent -= 1;
        }
    }

    /// Takes the wakers of all who wait.
    pub(crate) fn take_wakers(&mut self, wakers: &mut Vec<Waker>) {
        for slot in &mut self.slots {
            if let SlotState::Lent(LentRequest { delivery: Delivery::Waiter(waker), .. }) = &mut slot.state {
                wakers.extend(waker.take());
            }
        }
    }

    /// Keys of all requests that the device has.
    pub(crate) fn lent_keys(&self) -> Vec<RequestKey> {
        let lent = |(_, slot): &(usize, &RequestSlot)| matches!(slot.state, SlotState::Lent(_));
        self.slots
            .iter()
            .enumerate()
            .filter(lent)
            .map(|(index, slot)| RequestKey::new(self.queue, index as u32, slot.generation))
            .collect()
    }
}

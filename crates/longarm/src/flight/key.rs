//! Keys of work requests in flight, as they travel in `wr_id`.

use std::fmt;

const SLOT_BITS: u32 = 20;
const GENERATION_BITS: u32 = 20;

/// Names one work request in flight: the queue, the slot in it, and the slot's generation, so that
/// a late completion never affects the slot's next request.
///
/// ```text
///  63            40 39              20 19                0
///  ┌───────────────┬──────────────────┬──────────────────┐
///  │ queue (24)    │ generation (20)  │ slot (20)        │
///  └───────────────┴──────────────────┴──────────────────┘
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RequestKey(u64);

impl RequestKey {
    /// Slots that one queue may have.
    pub(crate) const MAX_SLOTS: usize = 1 << SLOT_BITS;
    /// Queue numbers are below this.
    pub(crate) const MAX_QUEUES: u32 = 1 << 24;

    pub(crate) fn new(queue: u32, slot: u32, generation: u32) -> RequestKey {
        debug_assert!(queue < RequestKey::MAX_QUEUES && (slot as usize) < RequestKey::MAX_SLOTS);
        let generation = generation & ((1 << GENERATION_BITS) - 1);
        RequestKey(
            u64::from(queue) << (SLOT_BITS + GENERATION_BITS) | u64::from(generation) << SLOT_BITS | u64::from(slot),
        )
    }

    pub(crate) fn from_wr_id(wr_id: u64) -> RequestKey {
        RequestKey(wr_id)
    }

    pub(crate) fn wr_id(self) -> u64 {
        self.0
    }

    pub(crate) fn queue(self) -> u32 {
        (self.0 >> (SLOT_BITS + GENERATION_BITS)) as u32
    }

    pub(crate) fn slot(self) -> usize {
        self.0 as usize & (RequestKey::MAX_SLOTS - 1)
    }
}

/// Names a posted work request, to recognise its [`Completion`](crate::Completion) or
/// to wait for it.
///
/// See [`CompletionQueue`](crate::CompletionQueue).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub(crate) RequestKey);

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({:#x})", self.0.0)
    }
}

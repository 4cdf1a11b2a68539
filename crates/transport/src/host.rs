//! The services of the device to a queue pair: memory, completion queues, events, shared receive queues.

use std::sync::Arc;

use crate::budget::ReorderBudget;
use crate::completion::Completion;
use crate::memory::{Memory, PdId};
use crate::shm::path::ShmPath;
use crate::wr::RecvWr;

/// One of the two completion queues of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CqSide {
    /// Of the send queue.
    Send,
    /// Of the receive queue.
    Recv,
}

/// Something asynchronous about a queue pair; the names are those of `enum ibv_event_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QpEvent {
    /// The queue pair entered the error state by itself (protocol failure).
    Fatal,
    /// A peer's request was malformed.
    RequestError,
    /// A peer's request was refused: key, range or right.
    AccessError,
    /// The first message arrived while still in RTR.
    CommunicationEstablished,
    /// Every outstanding send has completed after SQD.
    SendQueueDrained,
    /// A queue pair with a shared receive queue will take no more of its WQEs.
    LastWqeReached,
}

/// The device's services to one queue pair during one call. The queue pair calls back from within the call and keeps
/// nothing. The default methods describe a device without shared receive queues.
pub trait Host {
    /// Memory under keys.
    type Memory: Memory + ?Sized;

    /// The shared-memory path to a peer on the same host.
    type Path: ShmPath<Memory = Self::Memory> + ?Sized;

    /// The memory that the device knows.
    fn memory(&self) -> &Self::Memory;

    /// The shared-memory path to the peer, if the queue pair uses one (see [`Qp::set_shm`](crate::Qp::set_shm)).
    fn path(&self) -> Option<&Self::Path>;

    /// Appends to one of the pair's completion queues.
    fn complete(&mut self, side: CqSide, completion: Completion);

    /// Reports an asynchronous event.
    fn event(&mut self, event: QpEvent);

    /// Takes the next WQE of the shared receive queue, `None` if it is empty.
    /// Asked only if the queue pair was made with one.
    fn take_shared_recv(&mut self) -> Option<RecvWr> {
        None
    }

    /// XRC target: the protection domain of the shared receive queue `srq` of this queue pair's
    /// XRC domain, `None` if the domain has no such queue.
    fn xrc_srq(&mut self, _srq: u32) -> Option<PdId> {
        None
    }

    /// XRC target: takes the next WQE of that queue, `None` if it is empty (or gone).
    fn take_xrc_recv(&mut self, _srq: u32) -> Option<RecvWr> {
        None
    }

    /// XRC target: appends to the completion queue of that queue.
    fn complete_xrc(&mut self, _srq: u32, _completion: Completion) {}

    /// The bound on out-of-order packets of all queue pairs of the device. `None`: only the bound of each queue pair
    /// (1 MiB of payload). Called only after a loss.
    fn reorder_budget(&self) -> Option<&Arc<ReorderBudget>> {
        None
    }

    /// Fault injection: whether to act as if no receive WQE were posted.
    fn inject_receiver_not_ready(&mut self) -> bool {
        false
    }
}

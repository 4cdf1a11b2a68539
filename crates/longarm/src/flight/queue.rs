//! One work queue: a send queue, a receive queue or a shared receive queue.

use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Waker;

use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use transport::{Completion, CompletionOp, Reason, Status};
use wire::Qpn;

use super::slots::{Delivery, FinishedRequest, LentRequest, RequestSlots, SlotState};
use super::{Loan, RequestKey};

/// A request about to be posted.
#[derive(Debug)]
pub(crate) struct PreparedRequest {
    pub(crate) loan: Loan,
    pub(crate) op: CompletionOp,
    pub(crate) signaled: bool,
    pub(crate) delivery: Delivery,
}

/// The keys of requests that were entered, and whether each is signaled.
pub(crate) type EnteredKeys = SmallVec<[(RequestKey, bool); 1]>;

/// The consequences of completions: collected under locks, carried out without them.
#[derive(Debug, Default)]
pub(crate) struct CompletionEffects {
    /// Completions for poll mode.
    pub(crate) ready: VecDeque<(RequestKey, FinishedRequest)>,
    /// Waiters to wake.
    pub(crate) wakers: Vec<Waker>,
    /// Memory that nobody waits for.
    pub(crate) orphans: Vec<Loan>,
}

#[derive(Debug)]
struct RequestTable {
    slots: RequestSlots,
    /// Send queues complete in order: requests in the order of posting.
    order: VecDeque<RequestKey>,
    /// Unsignaled requests since the last signaled one.
    unsignaled: u32,
}

/// The requests of one queue that the device has, or is done with.
#[derive(Debug)]
pub(crate) struct WorkQueue {
    id: u32,
    depth: u32,
    in_order: bool,
    inner: Mutex<RequestTable>,
    /// Completions for poll mode that nobody has taken. They count against the depth, so that a
    /// program that posts and never polls is stopped by a full queue and not by memory.
    unclaimed: AtomicU32,
    /// Held from the entry in `order` until the device has the request, so that both
    /// see the same order. Completions do not need it.
    posting: Mutex<()>,
    qp: OnceLock<provider::Qp>,
}

impl WorkQueue {
    /// A send queue (`in_order`) or a receive queue for `depth` requests.
    pub(crate) fn new(id: u32, depth: u32, in_order: bool) -> WorkQueue {
        WorkQueue {
            id,
            depth,
            in_order,
            inner: Mutex::new(RequestTable { slots: RequestSlots::new(id), order: VecDeque::new(), unsignaled: 0 }),
            unclaimed: AtomicU32::new(0),
            posting: Mutex::new(()),
            qp: OnceLock::new(),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth
    }

    /// Names the queue pair to ask why a request failed.
    pub(crate) fn belongs_to(&self, qp: provider::Qp) {
        let _ = self.qp.set(qp);
    }

    /// The reason why the queue pair failed, if it did. Not to be called from a waker: it takes
    /// the queue pair's lock.
    pub(crate) fn reason(&self) -> Option<Reason> {
        self.qp.get()?.failure()
    }

    /// Keeps other threads from posting until the guard is dropped.
    pub(crate) fn posting(&self) -> MutexGuard<'_, ()> {
        self.posting.lock()
    }

    /// Enters requests that are about to be posted. If there is no room for all, they stay
    /// where they are.
    pub(crate) fn enter(&self, entries: &mut SmallVec<[PreparedRequest; 1]>) -> Option<EnteredKeys> {
        let mut inner = self.inner.lock();
        let held = inner.slots.lent() as usize + self.unclaimed.load(Relaxed) as usize;
        if held + entries.len() > self.depth as usize || !inner.slots.has_room(entries.len()) {
            return None;
        }
        Some(entries.drain(..).map(|entry| self.enter_one(&mut inner, entry)).collect())
    }

    /// As [`enter`](WorkQueue::enter), for one request. It comes back if there is no room.
    #[expect(
        clippy::result_large_err,
        reason = "a request that finds no room is rare, and a box would cost those that do"
    )]
    pub(crate) fn enter_single(&self, entry: PreparedRequest) -> Result<(RequestKey, bool), PreparedRequest> {
        let mut inner = self.inner.lock();
        let held = inner.slots.lent() as usize + self.unclaimed.load(Relaxed) as usize;
        if held + 1 > self.depth as usize || !inner.slots.has_room(1) {
            return Err(entry);
        }
        Ok(self.enter_one(&mut inner, entry))
    }

    fn enter_one(&self, inner: &mut RequestTable, entry: PreparedRequest) -> (RequestKey, bool) {
        let signaled = entry.signaled || self.must_signal(inner);
        inner.unsignaled = if signaled { 0 } else { inner.unsignaled + 1 };
        let key =
            inner.slots.insert(LentRequest { loan: entry.loan, op: entry.op, signaled, delivery: entry.delivery });
        if self.in_order {
            inner.order.push_back(key);
        }
        (key, signaled)
    }

    /// A run of unsignaled requests must not fill the queue: nothing would come back.
    fn must_signal(&self, inner: &RequestTable) -> bool {
        inner.unsignaled + 1 >= (self.depth / 2).max(1)
    }

    /// Takes back a request that the device has refused. It was the last entered.
    pub(crate) fn withdraw(&self, key: RequestKey) -> Loan {
        let mut inner = self.inner.lock();
        if self.in_order {
            inner.order.retain(|k| *k != key);
        }
        match inner.slots.remove(key) {
            Some(SlotState::Lent(lent)) => lent.loan,
            state => unreachable!("the device refused a request that is {state:?}"),
        }
    }

    /// Takes in a completion of the device. A stale one is ignored.
    pub(crate) fn complete(&self, completion: &Completion, effects: &mut CompletionEffects) {
        let key = RequestKey::from_wr_id(completion.wr_id);
        let inner = &mut *self.inner.lock();
        if !matches!(inner.slots.get_mut(key), Some(SlotState::Lent(_))) {
            return;
        }
        if self.in_order {
            self.complete_earlier(inner, key, completion.qpn, effects);
        }
        self.finish(&mut inner.slots, key, *completion, effects);
    }

    /// Unsignaled requests before a completed one have succeeded: failures are always reported. A
    /// signaled one would have its own report still to come.
    fn complete_earlier(&self, inner: &mut RequestTable, key: RequestKey, qpn: Qpn, effects: &mut CompletionEffects) {
        while let Some(earlier) = inner.order.pop_front().filter(|earlier| *earlier != key) {
            match inner.slots.get_mut(earlier) {
                Some(SlotState::Lent(lent)) if !lent.signaled => {
                    let implied = Completion::success(earlier.wr_id(), qpn, lent.op, 0);
                    self.finish(&mut inner.slots, earlier, implied, effects);
                }
                _ => {}
            }
        }
    }

    fn finish(
        &self,
        slots: &mut RequestSlots,
        key: RequestKey,
        completion: Completion,
        effects: &mut CompletionEffects,
    ) {
        let Some(SlotState::Lent(lent)) = slots.get_mut(key) else { return };
        let op = if completion.status == Status::Success { completion.op } else { lent.op };
        let done = FinishedRequest { completion, op, loan: std::mem::take(&mut lent.loan) };
        match std::mem::replace(&mut lent.delivery, Delivery::Nobody) {
            Delivery::Waiter(waker) => {
                effects.wakers.extend(waker);
                slots.finish(key, done);
            }
            Delivery::Poll => {
                slots.remove(key);
                self.unclaimed.fetch_add(1, Relaxed);
                effects.ready.push_back((key, done));
            }
            Delivery::Nobody => {
                slots.remove(key);
                effects.orphans.push(done.loan);
            }
        }
    }

    /// A completion for poll mode has been taken.
    pub(crate) fn claimed(&self) {
        let before = self.unclaimed.fetch_sub(1, Relaxed);
        debug_assert!(before > 0, "a completion was claimed twice");
    }

    /// Gives back everything that the device has: it has been told to forget the queue.
    pub(crate) fn reclaim(&self, qpn: Qpn, effects: &mut CompletionEffects) {
        let inner = &mut *self.inner.lock();
        inner.order.clear();
        for key in inner.slots.lent_keys() {
            let flushed = Completion::failure(key.wr_id(), qpn, CompletionOp::Send, Status::WorkRequestFlushed);
            self.finish(&mut inner.slots, key, flushed, effects);
        }
    }

    /// Asks for the result of a request. If there is none yet, `waker` will be called.
    pub(crate) fn take_or_wait(&self, key: RequestKey, waker: Option<&Waker>) -> RequestStatus {
        let mut inner = self.inner.lock();
        match inner.slots.get_mut(key) {
            Some(SlotState::Lent(lent)) => {
                lent.delivery = Delivery::Waiter(waker.cloned());
                RequestStatus::NotYet
            }
            Some(SlotState::Done(_)) => match inner.slots.remove(key) {
                Some(SlotState::Done(done)) => RequestStatus::Done(done),
                _ => RequestStatus::Unknown,
            },
            _ => RequestStatus::Unknown,
        }
    }

    /// Ends the wait for a request that is still in flight and redirects its completion to `delivery`.
    /// Returns the result if it came just before.
    pub(crate) fn stop_waiting(&self, key: RequestKey, delivery: Delivery) -> Option<FinishedRequest> {
        let mut inner = self.inner.lock();
        match inner.slots.get_mut(key)? {
            SlotState::Lent(lent) => {
                lent.delivery = delivery;
                None
            }
            _ => match inner.slots.remove(key)? {
                SlotState::Done(done) => Some(done),
                _ => None,
            },
        }
    }

    /// Collects the wakers of all waiters.
    pub(crate) fn wake_all(&self, effects: &mut CompletionEffects) {
        self.inner.lock().slots.take_wakers(&mut effects.wakers);
    }

    /// Requests that the device has.
    pub(crate) fn lent(&self) -> u32 {
        self.inner.lock().slots.lent()
    }
}

/// The answer of [`WorkQueue::take_or_wait`].
#[derive(Debug)]
pub(crate) enum RequestStatus {
    Done(FinishedRequest),
    NotYet,
    Unknown,
}

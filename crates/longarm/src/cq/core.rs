//! From the device's completion queue to the waiters: polls, sorts, wakes.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use device::CqError;
use parking_lot::Mutex;

use super::CompletionChannel;
use crate::completion::Completion;
use crate::error::ResourceError;
use crate::flight::{CompletionEffects, Loan, RequestKey, WorkQueue};
use crate::open_device::Device;

/// Completions taken from the device in one poll.
const BATCH: usize = 32;
/// Capacity before any queue pair asks for more.
const INITIAL_CAPACITY: u32 = 16;

/// A completion queue with the work queues that report to it.
///
/// One lock is held while completions are taken from the device and entered into the work queues.
/// So each work queue sees them in order. Wakers are called and memory is freed after it is
/// released.
pub(crate) struct CqCore {
    device: Device,
    handle: provider::Cq,
    cookie: u64,
    sorter: Mutex<CompletionSorter>,
    /// More completions may have come while the sorter was busy: its user polls again.
    again: AtomicBool,
    /// The number of futures and threads that wait for completions of this queue.
    waiting: AtomicUsize,
    armed: AtomicBool,
    waker: Waker,
}

/// The part that a thread plays for the device when it takes completions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CqDrive {
    /// It takes those that are there.
    Not,
    /// It drives the device.
    Once,
    /// It drives the device, and has nothing else to do for so long.
    For(Duration),
}

#[derive(Default)]
struct CompletionSorter {
    raw: Vec<device::Completion>,
    effects: CompletionEffects,
    queues: HashMap<u32, Arc<WorkQueue>>,
    /// Completions that the attached queues can cause.
    capacity: u32,
    /// Threads and tasks that wait for completions of poll mode.
    pollers: Vec<Waker>,
}

impl CompletionSorter {
    fn take_in(&mut self, device: &provider::Cq, drive: CqDrive) -> Result<(), CqError> {
        while drive != CqDrive::Not || !device.is_empty() {
            self.raw.clear();
            let polled = match drive {
                CqDrive::For(longest) => device.poll_for(&mut self.raw, BATCH, longest),
                CqDrive::Not | CqDrive::Once => device.poll(&mut self.raw, BATCH),
            };
            let count = polled.inspect_err(|_| self.alert())?;
            for completion in &self.raw {
                let queue = RequestKey::from_wr_id(completion.wr_id).queue();
                if let Some(queue) = self.queues.get(&queue) {
                    queue.complete(completion, &mut self.effects);
                }
            }
            if count < BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Completions are lost: wakes all waiters, so that they see the error.
    fn alert(&mut self) {
        for queue in self.queues.values() {
            queue.wake_all(&mut self.effects);
        }
        self.effects.wakers.append(&mut self.pollers);
    }

    /// Takes one completion for poll mode.
    fn claim(&mut self, at: usize) -> Option<Completion> {
        let (key, done) = match at {
            0 => self.effects.ready.pop_front()?,
            _ => self.effects.ready.remove(at)?,
        };
        let queue = self.queues.get(&key.queue());
        queue.inspect(|queue| queue.claimed());
        let reason = queue.filter(|_| !done.is_ok()).and_then(|queue| queue.reason());
        Some(Completion::new(key, done, reason))
    }

    /// Enters a waiter for completions of poll mode.
    fn note_poller(&mut self, waker: Option<&Waker>) {
        let known = |waker: &&Waker| self.pollers.iter().any(|known| known.will_wake(waker));
        let waker = waker.filter(|waker| !known(waker)).cloned();
        self.pollers.extend(waker);
    }

    /// Takes the wakers to call and the loans to free once the lock is released.
    fn take_effects(&mut self) -> (Vec<Waker>, Vec<Loan>) {
        if !self.effects.ready.is_empty() {
            self.effects.wakers.append(&mut self.pollers);
        }
        let CompletionEffects { wakers, orphans, .. } = &mut self.effects;
        (std::mem::take(wakers), std::mem::take(orphans))
    }
}

impl CqCore {
    pub(crate) fn new(device: &Device, channel: Option<&CompletionChannel>) -> Result<Arc<CqCore>, ResourceError> {
        let cookie = device.next_cookie();
        let channel = channel.map(CompletionChannel::handle);
        let handle = device.handle().create_cq(INITIAL_CAPACITY, channel, cookie)?;
        Ok(Arc::new_cyclic(|core| CqCore {
            device: device.clone(),
            handle,
            cookie,
            sorter: Mutex::default(),
            again: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            armed: AtomicBool::new(false),
            waker: Arc::new(CqWaker(Weak::clone(core))).into(),
        }))
    }

    pub(crate) fn handle(&self) -> &provider::Cq {
        &self.handle
    }

    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    pub(crate) fn is_of(&self, device: &Device) -> bool {
        self.device.is_same(device)
    }

    /// Takes in the completions of one more work queue, and grows to hold all of them.
    pub(crate) fn attach(&self, queue: &Arc<WorkQueue>) -> Result<(), device::Error> {
        self.locked(|sorter| {
            // Numbers repeat after 2^24; two queues must not get each other's completions.
            if sorter.queues.contains_key(&queue.id()) {
                return Err(device::Error::Exhausted("work queue number"));
            }
            sorter.capacity = self.make_room(sorter.capacity.saturating_add(queue.depth()))?;
            sorter.queues.insert(queue.id(), Arc::clone(queue));
            Ok(())
        })
    }

    fn make_room(&self, wanted: u32) -> Result<u32, device::Error> {
        let present = self.handle.capacity();
        if wanted > present {
            let doubled = self.handle.resize(wanted.max(2 * present));
            doubled.or_else(|_| self.handle.resize(wanted))?;
        }
        Ok(wanted)
    }

    /// Forgets an attached queue, if it is. Completions that may still come are ignored.
    pub(crate) fn detach(&self, queue: &WorkQueue) {
        self.locked(|sorter| {
            let known = sorter.queues.get(&queue.id());
            if known.is_some_and(|known| std::ptr::eq(&**known, queue)) {
                sorter.queues.remove(&queue.id());
                sorter.capacity -= queue.depth();
            }
        });
    }

    /// Takes completions for poll mode.
    pub(crate) fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        let driven = self.progress();
        self.take_polled(out, max, driven)
    }

    /// The same for a caller that has nothing else to do for `longest`.
    pub(crate) fn poll_for(&self, out: &mut Vec<Completion>, max: usize, longest: Duration) -> Result<usize, CqError> {
        let driven = self.sort(CqDrive::For(longest));
        self.take_polled(out, max, driven)
    }

    fn take_polled(
        &self,
        out: &mut Vec<Completion>,
        max: usize,
        driven: Result<(), CqError>,
    ) -> Result<usize, CqError> {
        match self.take_ready(out, max, None) {
            0 => driven.map(|()| 0),
            count => Ok(count),
        }
    }

    /// Takes completions for poll mode that have been taken in already. If there are none,
    /// `waker` will be called when there are.
    pub(crate) fn take_ready(&self, out: &mut Vec<Completion>, max: usize, waker: Option<&Waker>) -> usize {
        self.locked(|sorter| {
            let count = sorter.effects.ready.len().min(max);
            for _ in 0..count {
                out.extend(sorter.claim(0));
            }
            if count == 0 {
                sorter.note_poller(waker);
            }
            count
        })
    }

    /// Takes the completion of one posted request out of those for poll mode.
    pub(crate) fn take_one(&self, key: RequestKey) -> Option<Completion> {
        self.locked(|sorter| {
            let at = sorter.effects.ready.iter().position(|(k, _)| *k == key)?;
            sorter.claim(at)
        })
    }

    /// Takes in the device's completions, and then ends further requests by `change`.
    pub(crate) fn announce(&self, change: impl FnOnce(&mut CompletionEffects)) {
        self.locked(|sorter| {
            // An error does not matter to requests that end here anyway.
            let _ = sorter.take_in(&self.handle, CqDrive::Not);
            change(&mut sorter.effects);
        });
        let _ = self.collect();
    }

    /// Runs `work` with the sorter. Then polls for callers that found it busy meanwhile.
    fn locked<R>(&self, work: impl FnOnce(&mut CompletionSorter) -> R) -> R {
        let result = work(&mut self.sorter.lock());
        if self.again.load(SeqCst) {
            let _ = self.collect();
        }
        result
    }

    /// Drives the device, and sorts its completions.
    pub(crate) fn progress(&self) -> Result<(), CqError> {
        self.sort(CqDrive::Once)
    }

    /// The same for a task, which must not give away the processor of its executor.
    pub(crate) fn progress_awake(&self) -> Result<(), CqError> {
        self.sort(CqDrive::For(Duration::ZERO))
    }

    /// Sorts completions that are there already, without driving the device.
    fn collect(&self) -> Result<(), CqError> {
        self.sort(CqDrive::Not)
    }

    /// Sorts completions until there are no more, and wakes the waiters. If another
    /// thread sorts, or this one further up its stack, then that one polls again.
    fn sort(&self, mut drive: CqDrive) -> Result<(), CqError> {
        self.again.store(true, SeqCst);
        let mut result = Ok(());
        while self.again.swap(false, SeqCst) {
            let Some(mut sorter) = self.sorter.try_lock() else {
                self.again.store(true, SeqCst);
                break;
            };
            result = sorter.take_in(&self.handle, drive);
            drive = CqDrive::Not;
            let (wakers, orphans) = sorter.take_effects();
            drop(sorter);
            drop(orphans);
            wakers.into_iter().for_each(Waker::wake);
        }
        result
    }

    /// Counts a waiter. Until [`leave`](CqCore::leave) completions are taken in even if
    /// nobody polls.
    pub(crate) fn enter(&self) {
        self.waiting.fetch_add(1, SeqCst);
    }

    /// Takes back one [`enter`](CqCore::enter).
    pub(crate) fn leave(&self) {
        let before = self.waiting.fetch_sub(1, SeqCst);
        debug_assert!(before > 0, "a waiter left twice");
    }

    /// Makes sure that completions from now on are taken in by the device's own thread.
    /// Earlier ones are taken in here.
    pub(crate) fn arm(&self) -> Result<(), CqError> {
        if !self.armed.swap(true, SeqCst) {
            self.handle.set_waker(Some(self.waker.clone()));
            self.handle.arm(false)?;
        }
        self.collect()
    }

    /// The device has completions: takes them in, and arms again while there are waiters.
    fn woken(&self) {
        self.armed.store(false, SeqCst);
        // The next poll reports the error.
        let _ = self.collect();
        if self.waiting.load(SeqCst) > 0 {
            let _ = self.arm();
        }
    }
}

impl fmt::Debug for CqCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CqCore").field("cookie", &self.cookie).finish_non_exhaustive()
    }
}

/// The waker that the device calls. It must not keep the queue alive.
struct CqWaker(Weak<CqCore>);

impl Wake for CqWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(core) = self.0.upgrade() {
            core.woken();
        }
    }
}

//! From the device's completion queue to those who asked: polls, sorts, wakes.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

use device::CqError;
use parking_lot::Mutex;

use super::CompletionChannel;
use crate::completion::Completion;
use crate::context::Context;
use crate::error::ResourceError;
use crate::flight::{CompletionEffects, Key, Loan, WorkQueue};

/// Completions taken from the device at once.
const BATCH: usize = 32;
/// Capacity before any queue pair asks for more.
const INITIAL_CAPACITY: u32 = 16;

/// A completion queue with the work queues that report to it.
///
/// One lock is held while completions are taken from the device and entered into the work
/// queues, so that each work queue sees them in order. Wakers are called and memory is
/// freed after it is released.
pub(crate) struct CqCore {
    context: Context,
    device: device::Cq,
    cookie: u64,
    intake: Mutex<CompletionSorter>,
    /// Something may have come while the intake was busy: look again.
    again: AtomicBool,
    /// Futures and threads that wait for completions of this queue.
    waiting: AtomicUsize,
    armed: AtomicBool,
    hook: Waker,
}

#[derive(Default)]
struct CompletionSorter {
    raw: Vec<device::Completion>,
    news: CompletionEffects,
    queues: HashMap<u32, Arc<WorkQueue>>,
    /// Completions that the attached queues can cause.
    capacity: u32,
    /// Threads and tasks that wait for completions of poll mode.
    pollers: Vec<Waker>,
}

impl CompletionSorter {
    fn take_in(&mut self, device: &device::Cq, drive: bool) -> Result<(), CqError> {
        while drive || !device.is_empty() {
            self.raw.clear();
            let count = device.poll(&mut self.raw, BATCH).inspect_err(|_| self.alert())?;
            for completion in &self.raw {
                let queue = Key::from_wr_id(completion.wr_id).queue();
                if let Some(queue) = self.queues.get(&queue) {
                    queue.complete(completion, &mut self.news);
                }
            }
            if count < BATCH {
                break;
            }
        }
        Ok(())
    }

    /// Completions are lost: everybody has to look.
    fn alert(&mut self) {
        for queue in self.queues.values() {
            queue.wake_all(&mut self.news);
        }
        self.news.wakers.append(&mut self.pollers);
    }

    /// Takes one completion for poll mode.
    fn claim(&mut self, at: usize) -> Option<Completion> {
        let (key, done) = match at {
            0 => self.news.ready.pop_front()?,
            _ => self.news.ready.remove(at)?,
        };
        let queue = self.queues.get(&key.queue());
        queue.inspect(|queue| queue.claimed());
        let reason = queue.filter(|_| !done.is_ok()).and_then(|queue| queue.reason());
        Some(Completion::new(key, done, reason))
    }

    /// Somebody waits for completions of poll mode.
    fn note_poller(&mut self, waker: Option<&Waker>) {
        let known = |waker: &&Waker| self.pollers.iter().any(|known| known.will_wake(waker));
        let waker = waker.filter(|waker| !known(waker)).cloned();
        self.pollers.extend(waker);
    }

    /// Whom to wake and what to free once the lock is released.
    fn take_errands(&mut self) -> (Vec<Waker>, Vec<Loan>) {
        if !self.news.ready.is_empty() {
            self.news.wakers.append(&mut self.pollers);
        }
        let CompletionEffects { wakers, orphans, .. } = &mut self.news;
        (std::mem::take(wakers), std::mem::take(orphans))
    }
}

impl CqCore {
    pub(crate) fn new(context: &Context, channel: Option<&CompletionChannel>) -> Result<Arc<CqCore>, ResourceError> {
        let cookie = context.next_cookie();
        let channel = channel.map(CompletionChannel::device);
        let device = context.device().create_cq(INITIAL_CAPACITY, channel, cookie)?;
        Ok(Arc::new_cyclic(|core| CqCore {
            context: context.clone(),
            device,
            cookie,
            intake: Mutex::default(),
            again: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            armed: AtomicBool::new(false),
            hook: Arc::new(CqWaker(Weak::clone(core))).into(),
        }))
    }

    pub(crate) fn device(&self) -> &device::Cq {
        &self.device
    }

    pub(crate) fn cookie(&self) -> u64 {
        self.cookie
    }

    pub(crate) fn is_of(&self, context: &Context) -> bool {
        self.context.is_same(context)
    }

    /// Takes in the completions of one more work queue, and has room for all of them.
    pub(crate) fn attach(&self, queue: &Arc<WorkQueue>) -> Result<(), device::Error> {
        self.locked(|intake| {
            // Numbers come round after 2^24; two queues must not get each other's completions.
            if intake.queues.contains_key(&queue.id()) {
                return Err(device::Error::Exhausted("work queue number"));
            }
            intake.capacity = self.make_room(intake.capacity.saturating_add(queue.depth()))?;
            intake.queues.insert(queue.id(), Arc::clone(queue));
            Ok(())
        })
    }

    fn make_room(&self, wanted: u32) -> Result<u32, device::Error> {
        let present = self.device.capacity();
        if wanted > present {
            let doubled = self.device.resize(wanted.max(2 * present));
            doubled.or_else(|_| self.device.resize(wanted))?;
        }
        Ok(wanted)
    }

    /// Forgets an attached queue, if it is. Completions that may still come are ignored.
    pub(crate) fn detach(&self, queue: &WorkQueue) {
        self.locked(|intake| {
            let known = intake.queues.get(&queue.id());
            if known.is_some_and(|known| std::ptr::eq(&**known, queue)) {
                intake.queues.remove(&queue.id());
                intake.capacity -= queue.depth();
            }
        });
    }

    /// Takes completions for poll mode.
    pub(crate) fn poll(&self, out: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        let driven = self.progress();
        match self.take_ready(out, max, None) {
            0 => driven.map(|()| 0),
            count => Ok(count),
        }
    }

    /// Takes completions for poll mode that have been taken in already. If there are none,
    /// `waker` will be called when there are.
    pub(crate) fn take_ready(&self, out: &mut Vec<Completion>, max: usize, waker: Option<&Waker>) -> usize {
        self.locked(|intake| {
            let count = intake.news.ready.len().min(max);
            for _ in 0..count {
                out.extend(intake.claim(0));
            }
            if count == 0 {
                intake.note_poller(waker);
            }
            count
        })
    }

    /// Takes the completion of one posted request out of those for poll mode.
    pub(crate) fn take_one(&self, key: Key) -> Option<Completion> {
        self.locked(|intake| {
            let at = intake.news.ready.iter().position(|(k, _)| *k == key)?;
            intake.claim(at)
        })
    }

    /// Takes in what the device has reported, and then ends further requests by `change`.
    pub(crate) fn announce(&self, change: impl FnOnce(&mut CompletionEffects)) {
        self.locked(|intake| {
            // An error is no concern of requests that end now anyway.
            let _ = intake.take_in(&self.device, false);
            change(&mut intake.news);
        });
        let _ = self.collect();
    }

    /// Runs `work` with the intake. Whoever found it busy meanwhile is made up for.
    fn locked<R>(&self, work: impl FnOnce(&mut CompletionSorter) -> R) -> R {
        let result = work(&mut self.intake.lock());
        if self.again.load(SeqCst) {
            let _ = self.collect();
        }
        result
    }

    /// Drives the device, and sorts what has completed.
    pub(crate) fn progress(&self) -> Result<(), CqError> {
        self.sort(true)
    }

    /// Sorts what has completed already, without driving the device.
    fn collect(&self) -> Result<(), CqError> {
        self.sort(false)
    }

    /// Sorts completions until there are no more, and tells those who wait. If another
    /// thread is at it, or this one further up, then that one will look again.
    fn sort(&self, mut drive: bool) -> Result<(), CqError> {
        self.again.store(true, SeqCst);
        let mut result = Ok(());
        while self.again.swap(false, SeqCst) {
            let Some(mut intake) = self.intake.try_lock() else {
                self.again.store(true, SeqCst);
                break;
            };
            result = intake.take_in(&self.device, drive);
            drive = false;
            let (wakers, orphans) = intake.take_errands();
            drop(intake);
            drop(orphans);
            wakers.into_iter().for_each(Waker::wake);
        }
        result
    }

    /// Counts one who waits. Until [`leave`](CqCore::leave) completions are taken in even if
    /// nobody polls.
    pub(crate) fn enter(&self) {
        self.waiting.fetch_add(1, SeqCst);
    }

    /// Takes back one [`enter`](CqCore::enter).
    pub(crate) fn leave(&self) {
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// Makes sure that completions from now on are taken in by the device's own thread.
    /// What has come before is taken in here.
    pub(crate) fn arm(&self) -> Result<(), CqError> {
        if !self.armed.swap(true, SeqCst) {
            self.device.set_waker(Some(self.hook.clone()));
            self.device.arm(false)?;
        }
        self.collect()
    }

    /// The device has something: take it in, and stay armed while somebody waits.
    fn woken(&self) {
        self.armed.store(false, SeqCst);
        // An error comes again to whoever polls next.
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

/// What the device calls; it must not keep the queue alive.
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

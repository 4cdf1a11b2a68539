//! What was put off: acknowledges, and small requests behind many others.
//!
//! Both leave with whatever the application does next, or at its next poll, so that several
//! travel with one system call; the background thread sends them at the latest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use memory::QuickGuard;
use parking_lot::Mutex;

use crate::clock;
use crate::engine::Engine;
use crate::engine::scratch::Scratch;
use crate::qp::entry::{QpCell, QpEntry};

/// Doorbells of a queue pair that were rung while requests were outstanding, after which the
/// application is taken to fill a pipeline.
const PIPELINE_DOORBELLS: u32 = 8;
/// Queue pairs that wait with something put off before it is sent for all of them.
const MAX_PUT_OFF_ENTRIES: u32 = 64;
/// Batches of packets that are still taken before something goes.
const MAX_LAST_BATCHES: u32 = 64;
/// How long, at most, a queue pair, or all of a process, waits for threads that are sending for it before it goes.
const SEND_PATIENCE: Duration = Duration::from_secs(1);
/// So much may be put off: a full group of packets, or what makes a system call worthwhile.
const MAX_PUT_OFF_REQUESTS: u32 = 32;
const MAX_PUT_OFF_BYTES: u64 = 8 << 10;

/// Queue pairs of which something was put off.
#[derive(Default)]
pub(crate) struct DueList {
    entries: Mutex<Vec<Arc<QpEntry>>>,
    len: AtomicU32,
    any: AtomicBool,
    requests: AtomicBool,
}

impl DueList {
    pub(crate) fn push(&self, entry: Arc<QpEntry>) {
        let mut entries = self.entries.lock();
        entries.push(entry);
        self.len.store(entries.len() as u32, Relaxed);
        drop(entries);
        self.any.store(true, SeqCst);
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(SeqCst)
    }

    /// Exchanges the list for an empty one.
    fn swap(&self, list: &mut Vec<Arc<QpEntry>>) {
        let mut entries = self.entries.lock();
        self.any.store(false, SeqCst);
        self.requests.store(false, SeqCst);
        self.len.store(0, Relaxed);
        std::mem::swap(&mut *entries, list);
    }

    /// Whether so many wait that they are worth several full groups of packets.
    #[inline]
    pub(crate) fn is_long(&self) -> bool {
        self.len.load(Relaxed) >= MAX_PUT_OFF_ENTRIES
    }
}

/// The doorbells of one queue pair.
#[derive(Debug, Default)]
pub(crate) struct Doorbells {
    /// Rung in a row while requests were outstanding.
    busy: u32,
    /// What they have brought since packets were last built.
    requests: u32,
    bytes: u64,
}

impl Doorbells {
    /// One more, for so much. True if the application is filling a pipeline and this can
    /// wait for the rest.
    #[inline]
    pub(crate) fn ring(&mut self, outstanding: bool, requests: u32, bytes: u64) -> bool {
        self.busy = if outstanding { self.busy.saturating_add(1) } else { 0 };
        self.requests += requests;
        self.bytes += bytes;
        self.busy > PIPELINE_DOORBELLS && self.requests < MAX_PUT_OFF_REQUESTS && self.bytes < MAX_PUT_OFF_BYTES
    }

    /// Whether what it has brought is small and the last of `rung` doorbells, of any queue pairs, in succession: then
    /// the application is filling many queue pairs, and it can wait for the rest.
    #[inline]
    pub(crate) fn is_one_of_many(&self, rung: u32) -> bool {
        rung > PIPELINE_DOORBELLS && self.requests < MAX_PUT_OFF_REQUESTS && self.bytes < MAX_PUT_OFF_BYTES
    }

    /// Packets are built.
    #[inline]
    pub(crate) fn answered(&mut self) {
        (self.requests, self.bytes) = (0, 0);
    }
}

impl Engine {
    /// Notes that the acknowledge of a queue pair was put off.
    pub(crate) fn put_off(&self, entry: &Arc<QpEntry>) {
        if entry.becomes_due() {
            self.due.push(entry.clone());
        }
        self.background.kick();
    }

    /// Notes that requests of a queue pair were put off.
    pub(crate) fn put_requests_off(&self, entry: &Arc<QpEntry>) {
        self.put_off(entry);
        self.due.requests.store(true, SeqCst);
    }

    /// Sends requests that were put off, on a call of the application that drives nothing else.
    #[inline]
    pub(crate) fn send_deferred_requests(&self) {
        if self.due.requests.load(SeqCst) {
            Scratch::with(|scratch| {
                self.send_put_off(scratch);
                self.settle(scratch);
            });
        }
    }

    /// Takes what has arrived and acknowledges it, before a queue pair or the process goes: a
    /// NIC would have done so already, and peers wait for it.
    pub(crate) fn take_leave(&self) {
        let mut empty = 0;
        for _ in 0..MAX_LAST_BATCHES {
            empty = if self.progress() { 0 } else { empty + 1 };
            if empty == self.slots.len() {
                break;
            }
        }
        if self.due.any() || self.later.any_acks() {
            Scratch::with(|scratch| {
                self.send_put_off(scratch);
                self.do_later(scratch);
                self.settle(scratch);
            });
        }
    }

    /// Sends what a queue pair has to say before it goes: another thread may have handled its last
    /// message and not have come to the acknowledge yet, or have built packets, completed their requests, and not have
    /// come to the system call.
    pub(crate) fn say_last(&self, entry: &Arc<QpEntry>) {
        self.say_last_until(entry, Instant::now() + SEND_PATIENCE);
    }

    /// The same for all queue pairs, before the process goes.
    pub(crate) fn say_all_last(&self) {
        let end = Instant::now() + SEND_PATIENCE;
        self.slots.for_each_qp(|entry| self.say_last_until(entry, end));
    }

    fn say_last_until(&self, entry: &Arc<QpEntry>, end: Instant) {
        Scratch::with(|scratch| {
            let mut cell = lock_when_sent(entry, end);
            if let Some(live) = &mut cell.live {
                live.qp.ack_now();
            }
            // Not by way of `touched`: that other thread may have the queue pair on its list, and come
            // to it when it is gone.
            self.stage(entry, &mut cell, &mut scratch.staging, &mut scratch.outcome, clock::now());
            drop(cell);
            self.pump_touched(scratch);
            self.settle(scratch);
        });
    }

    /// Sends what was put off and has not left since.
    #[inline]
    pub(crate) fn send_put_off(&self, scratch: &mut Scratch) {
        if !self.due.any() {
            return;
        }
        let mut list = std::mem::take(&mut scratch.spare);
        self.due.swap(&mut list);
        scratch.touched.extend(list.drain(..).filter(|entry| entry.take_due()));
        scratch.spare = list;
        self.pump_touched(scratch);
    }
}

/// Locks a queue pair when nobody is sending for it, or at the `end` all the same: what others have built has left.
fn lock_when_sent(entry: &QpEntry, end: Instant) -> QuickGuard<'_, QpCell> {
    loop {
        let cell = entry.lock();
        if !entry.is_sending() {
            return cell;
        }
        if Instant::now() > end {
            log::debug!("{:?} goes while packets of it are being sent", entry.qpn());
            return cell;
        }
        drop(cell);
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pipeline_waits() {
        let mut doorbells = Doorbells::default();
        assert!((0..100).all(|_| !doorbells.ring(false, 1, 64)), "nothing is outstanding");
        assert!((0..PIPELINE_DOORBELLS).all(|_| !doorbells.ring(true, 1, 64)));
        doorbells.answered();
        assert!(doorbells.ring(true, 1, 64));
        assert!(!doorbells.ring(false, 1, 64));
        assert!(!doorbells.ring(true, 1, 64), "it begins anew");
    }

    #[test]
    fn much_does_not_wait() {
        let mut doorbells = Doorbells::default();
        assert!((0..PIPELINE_DOORBELLS).all(|_| !doorbells.ring(true, 1, 64)));
        doorbells.answered();
        assert!((1..MAX_PUT_OFF_REQUESTS).all(|_| doorbells.ring(true, 1, 64)));
        assert!(!doorbells.ring(true, 1, 64));
        doorbells.answered();
        assert!(!doorbells.ring(true, 1, MAX_PUT_OFF_BYTES), "large ones are worth a call each");
    }

    #[test]
    fn one_of_many_waits_unless_it_is_large() {
        let mut doorbells = Doorbells::default();
        assert!(!doorbells.ring(false, 4, 256));
        assert!(!doorbells.is_one_of_many(PIPELINE_DOORBELLS));
        assert!(doorbells.is_one_of_many(PIPELINE_DOORBELLS + 1));
        doorbells.ring(false, 4, MAX_PUT_OFF_BYTES);
        assert!(!doorbells.is_one_of_many(PIPELINE_DOORBELLS + 1));
    }
}

//! Calls of the owner of one queue pair.

use std::sync::Arc;

use transport::{RecvWr, RemoteAddr, SendFlags, SendWr, WriteAtOnce};

use crate::clock;
use crate::engine::Engine;
use crate::engine::scratch::{PathScratch, ThreadScratch};
use crate::error::{Error, PostFailure};
use crate::path::Staged;
use crate::qp::doorbells::RungDoorbell;
use crate::qp::entry::{PathKind, QpCell, QpEntry};
use crate::qp::host::QpHost;

const WHAT: &str = "queue pair";

impl Engine {
    /// Posts a list of send work requests, under one lock of the queue pair. Frames leave at once; packets are staged
    /// or deferred.
    #[inline]
    pub(crate) fn post_send(
        &self,
        entry: &Arc<QpEntry>,
        wrs: impl IntoIterator<Item = SendWr>,
        scratch: &mut ThreadScratch,
    ) -> Result<(), PostFailure> {
        let mut cell = entry.lock();
        let Some(live) = cell.live.as_mut() else { return Err(destroyed()) };
        let on_wire = live.path() != PathKind::Shm;
        let (qp, mut host) = live.hosted(&self.services, entry, &mut scratch.path.notices);
        let outstanding = on_wire && qp.awaits_answer();
        let (mut requests, mut bytes, mut more) = (0, 0, false);
        let mut posted = Ok(());
        for wr in wrs {
            bytes += if on_wire { wr.payload.len_bytes() } else { 0 };
            more = wr.flags.contains(SendFlags::MORE);
            if let Err(error) = qp.post_send(wr, &mut host) {
                posted = Err(PostFailure { index: requests, error: error.into() });
                break;
            }
            requests += 1;
        }
        if on_wire {
            let rung = RungDoorbell { outstanding, more, requests: requests as u32, bytes };
            if self.ring_doorbell(entry, &mut cell, rung, scratch) {
                drop(cell);
                self.send_many_deferred(&mut scratch.path);
            }
            return posted;
        }
        if !qp.is_send_queue_empty() {
            self.send_frames(entry, &mut cell, scratch);
        }
        // Otherwise all requests have completed while they were posted, and nothing follows from that.
        posted
    }

    /// Executes a WRITE of bytes that no key names, if that is possible at once.
    pub(crate) fn write_at_once(
        &self,
        entry: &Arc<QpEntry>,
        bytes: &[u8],
        to: RemoteAddr,
        scratch: &mut ThreadScratch,
    ) -> WriteAtOnce {
        let mut cell = entry.lock();
        let Some(live) = cell.live.as_mut() else { return WriteAtOnce::Refused };
        let (qp, mut host) = live.hosted(&self.services, entry, &mut scratch.path.notices);
        qp.write_at_once(bytes, to, &mut host)
    }

    /// Executes a READ into bytes that no key names, if that is possible at once; with a lock mask that of an object.
    #[inline]
    pub(crate) fn read_at_once(
        &self,
        entry: &Arc<QpEntry>,
        out: &mut [u8],
        (from, lock_mask): (RemoteAddr, Option<u64>),
        scratch: &mut ThreadScratch,
    ) -> Option<u32> {
        let mut cell = entry.lock();
        let live = cell.live.as_mut()?;
        let (qp, mut host) = live.hosted(&self.services, entry, &mut scratch.path.notices);
        qp.read_at_once(out, from, lock_mask, &mut host)
    }

    /// Sends the frames of requests that could not complete while they were posted.
    #[inline]
    fn send_frames(&self, entry: &Arc<QpEntry>, cell: &mut QpCell, scratch: &mut ThreadScratch) {
        if let (Some(shm), Some(live)) = (&self.shm, cell.live.as_mut()) {
            shm.transmit(&self.services, &self.schedule, entry, live, &mut scratch.path.notices, false);
            self.schedule.set_timer(entry, cell);
        }
    }

    /// Stages packets for a doorbell, or defers it if it can wait for the next. True if it was deferred.
    #[inline]
    fn ring_doorbell(
        &self,
        entry: &Arc<QpEntry>,
        cell: &mut QpCell,
        rung: RungDoorbell,
        scratch: &mut ThreadScratch,
    ) -> bool {
        let now = clock::now();
        scratch.doorbells.ring(now, self.activity.empty_polls());
        let may_wait = cell.doorbells.ring(rung);
        let can_wait = may_wait || cell.doorbells.is_one_of_many(scratch.doorbells.count);
        if can_wait && !self.schedule.background.is_blocked() {
            self.schedule.defer_requests(entry);
            return true;
        }
        if self.transmit(entry, cell, &mut scratch.path, now) == Staged::Some {
            scratch.path.ready.push_back(entry.clone());
        }
        false
    }

    /// Sends the deferred requests if enough queue pairs wait to make a system call worthwhile.
    #[inline]
    fn send_many_deferred(&self, scratch: &mut PathScratch) {
        if self.schedule.deferred.has_many_packets() {
            self.send_deferred(scratch);
        }
    }

    /// Posts a list of receive work requests.
    #[inline]
    pub(crate) fn post_recv(
        &self,
        entry: &Arc<QpEntry>,
        wrs: impl IntoIterator<Item = RecvWr>,
        scratch: &mut ThreadScratch,
    ) -> Result<(), PostFailure> {
        let mut cell = entry.lock();
        let Some(live) = cell.live.as_mut() else { return Err(destroyed()) };
        let (qp, mut host) = live.hosted(&self.services, entry, &mut scratch.path.notices);
        let ack_was_due = qp.ack_due();
        let posted = wrs.into_iter().enumerate().try_for_each(|(index, wr)| {
            qp.post_recv(wr, &mut host).map_err(|error| PostFailure { index, error: error.into() })
        });
        // A peer on this host may wait for receives. A peer on the wire does if it was told that there were none.
        if live.shm.is_some() || live.qp.ack_due() != ack_was_due {
            self.look_after(entry, &mut cell, &mut scratch.path, self.acks_of_application());
        }
        posted
    }

    /// Calls `act` with the queue pair locked, and looks after it.
    ///
    /// # Errors
    /// [`Error::Destroyed`] if the queue pair was destroyed.
    pub(crate) fn with_live<R>(
        &self,
        entry: &Arc<QpEntry>,
        scratch: &mut ThreadScratch,
        act: impl FnOnce(&mut transport::Qp, &mut QpHost<'_>) -> R,
    ) -> Result<R, Error> {
        let mut cell = entry.lock();
        let Some(live) = cell.live.as_mut() else { return Err(Error::Destroyed(WHAT)) };
        let (qp, mut host) = live.hosted(&self.services, entry, &mut scratch.path.notices);
        let result = act(qp, &mut host);
        self.look_after(entry, &mut cell, &mut scratch.path, self.acks_of_application());
        Ok(result)
    }
}

#[cold]
fn destroyed() -> PostFailure {
    PostFailure { index: 0, error: Error::Destroyed(WHAT) }
}

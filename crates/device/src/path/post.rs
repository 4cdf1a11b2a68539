//! Work on one queue pair on its owner's call.

use std::sync::Arc;

use transport::{RecvWr, SendWr};

use crate::clock;
use crate::engine::Engine;
use crate::engine::scratch::Scratch;
use crate::error::{Error, PostFailure};
use crate::path::pump::Staged;
use crate::qp::entry::{Live, QpEntry};
use crate::qp::host::Host;

impl Engine {
    /// Posts a list and stages what may leave, under one lock of the queue pair.
    #[inline]
    pub(crate) fn post_send(
        &self,
        entry: &Arc<QpEntry>,
        wrs: impl IntoIterator<Item = SendWr>,
        scratch: &mut Scratch,
    ) -> Result<(), PostFailure> {
        let mut cell = entry.lock();
        let Some(Live { qp, parents, shm, .. }) = cell.live.as_mut() else { return Err(destroyed()) };
        let is_shm = qp.is_shm();
        let outstanding = !is_shm && qp.awaits_answer();
        let shm = shm.as_ref();
        let host = &mut Host { engine: self, entry, parents, shm, outcome: &mut scratch.outcome };
        let (mut requests, mut bytes) = (0, 0);
        let mut result = Ok(());
        for wr in wrs {
            bytes += if is_shm { 0 } else { wr.payload.len_bytes() };
            if let Err(error) = qp.post_send(wr, host) {
                result = Err(PostFailure { index: requests, error: error.into() });
                break;
            }
            requests += 1;
        }
        if is_shm {
            if qp.is_send_queue_empty() {
                return result; // all was done while it was posted, and nothing follows from that
            }
            qp.progress(false, host);
            if let Some(live) = cell.live.as_mut() {
                self.after_shm(entry, live);
            }
            self.rearm(entry, &mut cell);
            return result;
        }
        let now = clock::now();
        scratch.ring(now, self.activity.empty_polls());
        let fills_one = cell.doorbells.ring(outstanding, requests as u32, bytes);
        if (fills_one || cell.doorbells.is_one_of_many(scratch.rung)) && !self.background.is_blocked() {
            self.put_requests_off(entry);
            drop(cell);
            if self.due.is_long() {
                self.send_put_off(scratch);
            }
            return result;
        }
        let staged = self.stage(entry, &mut cell, &mut scratch.staging, &mut scratch.outcome, now);
        if staged == Staged::Some {
            scratch.touched.push_back(entry.clone());
        }
        result
    }

    /// Posts a list of receives.
    #[inline]
    pub(crate) fn post_recv(
        &self,
        entry: &Arc<QpEntry>,
        wrs: impl IntoIterator<Item = RecvWr>,
        scratch: &mut Scratch,
    ) -> Result<(), PostFailure> {
        let mut cell = entry.lock();
        let Some(Live { qp, parents, shm, .. }) = cell.live.as_mut() else { return Err(destroyed()) };
        let shm = shm.as_ref();
        let host = &mut Host { engine: self, entry, parents, shm, outcome: &mut scratch.outcome };
        let ack_was_due = qp.ack_due();
        let posted = wrs.into_iter().enumerate().try_for_each(|(index, wr)| {
            qp.post_recv(wr, host).map_err(|error| PostFailure { index, error: error.into() })
        });
        // A peer may wait for receives: on this host, or since it was told that there were none.
        if qp.is_shm() || qp.ack_due() != ack_was_due {
            self.note_work(entry, &mut cell, scratch, self.acks_of_application());
        }
        posted
    }

    /// Calls `act` with the queue pair locked, and notes what follows. `None` if it was destroyed.
    pub(crate) fn with_live<R>(
        &self,
        entry: &Arc<QpEntry>,
        scratch: &mut Scratch,
        act: impl FnOnce(&mut transport::Qp, &mut Host<'_>) -> R,
    ) -> Option<R> {
        let mut cell = entry.lock();
        let Live { qp, parents, shm, .. } = cell.live.as_mut()?;
        let shm = shm.as_ref();
        let host = &mut Host { engine: self, entry, parents, shm, outcome: &mut scratch.outcome };
        let result = act(qp, host);
        self.note_work(entry, &mut cell, scratch, self.acks_of_application());
        Some(result)
    }
}

#[cold]
fn destroyed() -> PostFailure {
    PostFailure { index: 0, error: Error::Destroyed("queue pair") }
}

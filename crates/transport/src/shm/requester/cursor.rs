//! The requester's place in the send queue: requests that have left, the one that is leaving, and the awaited answer.
//!
//! ```text
//!  send queue │ issued: frames that left │ part sent │ not begun ...
//!             └ una (its number)         └ sent_bytes
//! ```

use crate::drop::DropReason;
use crate::qp_core::QpCore;
use crate::queue::send::{SendQueue, SendWqe};
use crate::shm::frame::{FrameHead, FrameKind};

/// The answer that the head of the queue waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PendingAnswer {
    Nothing,
    /// The bytes of a READ; this many are here.
    Data {
        received: u32,
    },
    /// The result of a remote operation.
    Result,
    /// The reply to a request of Longarm's own.
    Reply,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ShmCursor {
    /// WQEs at the front of the queue whose frames have all left.
    issued: usize,
    /// WQEs at the front that were begun, also those that are to be sent again.
    begun: usize,
    /// The number of the first request that is not acknowledged.
    una: u32,
    /// Bytes sent of the first WQE that is not issued.
    sent_bytes: u32,
    pub(super) pending: PendingAnswer,
    /// Changes with every rewind, so that a late `NotReady` is not taken for a new one. Never zero.
    attempt: u16,
}

impl ShmCursor {
    /// Requests are numbered from `first` on.
    pub(super) fn new(first: u32) -> ShmCursor {
        ShmCursor { issued: 0, begun: 0, una: first, sent_bytes: 0, pending: PendingAnswer::Nothing, attempt: 1 }
    }

    /// The queue pair proceeds after an error: no request is outstanding.
    pub(super) fn restart(&mut self) {
        self.begun = 0;
        self.rewind();
    }

    /// Everything from the first unacknowledged request on is sent again.
    pub(super) fn rewind(&mut self) {
        self.issued = 0;
        self.sent_bytes = 0;
        self.pending = PendingAnswer::Nothing;
        self.attempt = self.attempt.checked_add(1).unwrap_or(1);
    }

    #[inline]
    pub(super) fn debug_check(&self, queue: &SendQueue) {
        debug_assert!(self.issued <= self.begun && self.begun <= queue.len(), "issued <= begun <= posted");
    }

    /// The index of the first WQE that is not issued.
    #[inline]
    pub(super) fn issued(&self) -> usize {
        self.issued
    }

    /// The first WQE that is not issued: the one that the present step works on.
    #[inline]
    pub(super) fn current<'a>(&self, queue: &'a SendQueue) -> &'a SendWqe {
        queue.get(self.issued).expect("a step begins only if the queue holds its WQE")
    }

    /// Bytes sent of the current WQE.
    #[inline]
    pub(super) fn sent_bytes(&self) -> u32 {
        self.sent_bytes
    }

    pub(super) fn is_drained(&self) -> bool {
        self.begun == 0
    }

    /// Whether WQEs were begun that are to be sent again.
    #[inline]
    pub(super) fn repeats(&self) -> bool {
        self.issued < self.begun
    }

    /// Whether a frame of a request has left that is not acknowledged.
    pub(super) fn has_sent(&self) -> bool {
        self.issued > 0 || self.sent_bytes > 0
    }

    /// Whether a frame of the request with this number has left.
    pub(super) fn has_sent_request(&self, request: u32) -> bool {
        let index = request.wrapping_sub(self.una) as usize;
        index < self.issued + usize::from(self.sent_bytes > 0)
    }

    /// Whether `request` is the oldest one.
    pub(super) fn is_oldest(&self, request: u32) -> bool {
        request == self.una
    }

    /// Whether a frame with this code answers what was sent since the last rewind.
    pub(super) fn is_attempt(&self, code: u16) -> bool {
        code == self.attempt
    }

    /// The head of a frame of the current WQE.
    #[inline]
    pub(super) fn head(&self, core: &QpCore, kind: FrameKind, ack: u32) -> FrameHead {
        let request = self.una.wrapping_add(self.issued as u32);
        FrameHead { request, ack, code: self.attempt, ..FrameHead::new(kind, core.qpn, core.attr.dest_qpn) }
    }

    /// Counts bytes of the current WQE that have left. Whether they were the last ones.
    #[inline]
    pub(super) fn count_sent(&mut self, queue: &SendQueue, bytes: u32) -> bool {
        self.sent_bytes += bytes;
        self.begun = self.begun.max(self.issued + 1);
        let is_all = queue.get(self.issued).is_some_and(|wqe| self.sent_bytes >= wqe.len_bytes);
        if is_all {
            self.issued += 1;
            self.sent_bytes = 0;
        }
        is_all
    }

    /// The head of the queue was begun, without a frame.
    pub(super) fn mark_begun(&mut self) {
        self.begun = self.begun.max(1);
    }

    /// The head of the queue has left in one frame.
    pub(super) fn mark_issued(&mut self) {
        self.issued = 1;
        self.mark_begun();
    }

    /// The peer has executed every request before `upto`. Returns how many WQEs that completes.
    #[inline]
    pub(super) fn acknowledge(&mut self, upto: u32) -> Result<usize, DropReason> {
        let count = upto.wrapping_sub(self.una) as usize;
        if count == 0 || is_before(upto, self.una) {
            return Ok(0);
        }
        let answered = if self.pending == PendingAnswer::Nothing { self.issued } else { 0 };
        if count > answered {
            return Err(DropReason::GhostResponse);
        }
        self.una = upto;
        self.issued -= count;
        self.begun = self.begun.saturating_sub(count);
        Ok(count)
    }

    /// The answer that the head waited for is complete.
    pub(super) fn end_wait(&mut self) {
        self.pending = PendingAnswer::Nothing;
        self.issued = 0;
    }

    /// The oldest request has ended, and had a number.
    pub(super) fn end_request(&mut self) {
        self.una = self.una.wrapping_add(1);
    }

    /// UC: the oldest request that was begun is lost.
    pub(super) fn lose(&mut self) {
        match self.issued {
            0 => self.sent_bytes = 0,
            _ => self.issued -= 1,
        }
        self.end_request();
    }

    /// The head of the queue is about to complete, by itself or by its answer.
    #[inline]
    pub(super) fn retire_head(&mut self) {
        self.begun = self.begun.saturating_sub(1);
    }
}

/// Whether a number lies before another; they wrap.
#[inline]
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

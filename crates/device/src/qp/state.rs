//! The state word of a queue pair: the lists that it is on, and the right to send for it.
//!
//! ```text
//!   READY          on one thread's list of queue pairs that may have something to send
//!   DEFERRED       an ACK or a request of it waits for the application's next call
//!   LISTED         on the list of such queue pairs; it leaves the list only when the list is served
//!   FRAME_LISTED   on the list of queue pairs that defer an ACK to a peer on this host
//!   STALLED        in line for room in a lane, or for a link
//!   QUEUED         in the queue of its destination, until its turn comes
//!   SENDING        a thread has packets of it staged; SEND_WANTED: another thread wanted to send meanwhile
//! ```
//! All flags are in one atomic word, so any two of them change together. READY and FRAME_LISTED change only under the
//! queue pair's lock; the others change without it. Deadlines are values: the timers' is in the queue pair's cell.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const SENDING: u32 = 1 << 0;
const SEND_WANTED: u32 = 1 << 1;
const READY: u32 = 1 << 2;
const DEFERRED: u32 = 1 << 3;
const LISTED: u32 = 1 << 4;
const STALLED: u32 = 1 << 5;
const FRAME_LISTED: u32 = 1 << 6;
const QUEUED: u32 = 1 << 7;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct QueueState(AtomicU32);

impl QueueState {
    /// Takes the right to send. If another thread has it, that thread looks again when it gives the right back, and
    /// this returns false. Called with the queue pair locked.
    #[inline]
    pub(crate) fn take_send_right(&self) -> bool {
        let taken = self.0.fetch_update(SeqCst, SeqCst, |state| {
            Some(if state & SENDING == 0 { state | SENDING } else { state | SEND_WANTED })
        });
        taken.is_ok_and(|before| before & SENDING == 0)
    }

    /// Gives the right to send back. True if another thread wanted it meanwhile.
    #[inline]
    pub(crate) fn release_send_right(&self) -> bool {
        let before = self.0.fetch_and(!(SENDING | SEND_WANTED), SeqCst);
        debug_assert!(before & SENDING != 0, "only the thread with the right to send gives it back");
        before & SEND_WANTED != 0
    }

    /// Whether a thread has the right to send.
    pub(crate) fn is_sending(&self) -> bool {
        self.has(SENDING)
    }

    /// Marks the queue pair as ready. True if the caller must put it on its list. Called with the queue pair locked.
    #[inline]
    pub(crate) fn becomes_ready(&self) -> bool {
        !self.has(READY) && self.set(READY)
    }

    /// It has its turn to send. Called with the queue pair locked.
    #[inline]
    pub(crate) fn is_served(&self) {
        // A load costs less than a write that other threads must see at once.
        if self.has(READY) {
            self.clear(READY);
        }
    }

    /// Marks the queue pair as deferred. True if the caller must put it on the list of those.
    #[inline]
    pub(crate) fn becomes_deferred(&self) -> bool {
        self.0.fetch_or(DEFERRED | LISTED, SeqCst) & LISTED == 0
    }

    /// All that was deferred has left with other packets.
    #[inline]
    pub(crate) fn is_not_deferred(&self) {
        if self.has(DEFERRED) {
            self.clear(DEFERRED);
        }
    }

    /// The queue pair is off the list. True if something deferred is still to be sent.
    #[inline]
    pub(crate) fn take_deferred(&self) -> bool {
        self.0.fetch_and(!(DEFERRED | LISTED), SeqCst) & DEFERRED != 0
    }

    /// Marks the queue pair as listed with a deferred frame. True if the caller must put it on that list. Called with
    /// the queue pair locked.
    #[inline]
    pub(crate) fn becomes_frame_listed(&self) -> bool {
        !self.has(FRAME_LISTED) && self.set(FRAME_LISTED)
    }

    /// It leaves the list of deferred frames. Called with the queue pair locked.
    pub(crate) fn is_not_frame_listed(&self) {
        self.clear(FRAME_LISTED);
    }

    /// Marks the queue pair as stalled. True if the caller must put it in line.
    #[inline]
    pub(crate) fn becomes_stalled(&self) -> bool {
        self.set(STALLED)
    }

    /// It has its turn in the line.
    pub(crate) fn is_not_stalled(&self) {
        self.clear(STALLED);
    }

    /// Whether it is in line.
    pub(crate) fn is_stalled(&self) -> bool {
        self.has(STALLED)
    }

    /// Marks the queue pair as queued at its destination.
    pub(crate) fn becomes_queued(&self) {
        let is_new = self.set(QUEUED);
        debug_assert!(is_new, "a queue pair has one share, and joins the queue once");
    }

    /// Its turn has come, or it leaves the queue without one.
    pub(crate) fn is_not_queued(&self) {
        self.clear(QUEUED);
    }

    /// Whether it is in the queue of its destination.
    pub(crate) fn is_queued(&self) -> bool {
        self.has(QUEUED)
    }

    #[inline]
    fn has(&self, flag: u32) -> bool {
        self.0.load(SeqCst) & flag != 0
    }

    /// Sets a flag; false if it was set.
    #[inline]
    fn set(&self, flag: u32) -> bool {
        self.0.fetch_or(flag, SeqCst) & flag == 0
    }

    #[inline]
    fn clear(&self, flag: u32) {
        self.0.fetch_and(!flag, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_to_send_remembers_who_else_wanted_it() {
        let state = QueueState::default();
        assert!(state.take_send_right());
        assert!(!state.take_send_right() && !state.take_send_right());
        assert!(state.is_sending() && state.release_send_right());
        assert!(!state.is_sending() && state.take_send_right());
        assert!(!state.release_send_right(), "nobody wanted it this time");
    }

    #[test]
    fn a_deferred_queue_pair_is_listed_once() {
        let state = QueueState::default();
        assert!(state.becomes_deferred() && !state.becomes_deferred());
        state.is_not_deferred();
        assert!(!state.becomes_deferred(), "it is still on the list");
        assert!(state.take_deferred() && !state.take_deferred());
        assert!(state.becomes_deferred());
        state.is_not_deferred();
        assert!(!state.take_deferred(), "all has left before the list was served");
    }

    #[test]
    fn flags_do_not_disturb_each_other() {
        let state = QueueState::default();
        assert!(state.becomes_ready() && state.becomes_stalled() && state.take_send_right());
        assert!(!state.becomes_ready() && !state.becomes_stalled());
        state.is_served();
        assert!(state.is_stalled() && state.is_sending() && state.becomes_ready());
        state.is_not_stalled();
        assert!(!state.release_send_right() && !state.becomes_ready());
        assert!(state.becomes_frame_listed() && !state.becomes_frame_listed());
        state.becomes_queued();
        state.is_not_frame_listed();
        assert!(state.is_queued() && state.becomes_frame_listed());
        state.is_not_queued();
        assert!(!state.is_queued() && !state.becomes_frame_listed());
    }
}

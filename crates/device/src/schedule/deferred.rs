//! Queue pairs that defer something: ACKs, and small requests behind many others.
//!
//! Both leave with the application's next request, or at its next poll, so that several travel with one system call or
//! one frame. The background thread sends them at the latest. A queue pair with a peer on this host defers ACKs only,
//! and stays on its list for a while: a queue pair that talks all the time would otherwise be listed for each message.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::qp::entry::{QpCell, QpEntry};
use crate::wait_list::WaitList;

/// The number of queue pairs with deferred packets that are sent at once: several full groups of packets.
const MANY_ENTRIES: u32 = 64;
/// The number of turns without an ACK to send after which a queue pair leaves the list of frames.
const MAX_IDLE_TURNS: u8 = 3;
/// The most queue pairs that stay on the list of frames without an ACK to send.
const MAX_STAYING: usize = 8;

/// See the module.
#[derive(Default)]
pub(crate) struct Deferred {
    /// Queue pairs on the wire.
    packets: WaitList<Arc<QpEntry>>,
    /// Whether any of them defers a request.
    has_requests: AtomicBool,
    /// Queue pairs with an ACK for a peer on this host.
    frames: WaitList<Arc<QpEntry>>,
}

impl Deferred {
    /// Whether a queue pair on the wire defers something.
    #[inline]
    pub(crate) fn has_packets(&self) -> bool {
        !self.packets.is_empty()
    }

    /// Whether so many do that it is time to send.
    #[inline]
    pub(crate) fn has_many_packets(&self) -> bool {
        self.packets.len() >= MANY_ENTRIES
    }

    /// Whether one of them defers a request.
    #[inline]
    pub(crate) fn has_requests(&self) -> bool {
        self.has_requests.load(SeqCst)
    }

    /// Whether an ACK for a peer on this host is deferred.
    #[inline]
    pub(crate) fn has_frames(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Defers the ACK of a queue pair on the wire.
    pub(crate) fn defer_ack(&self, entry: &Arc<QpEntry>) {
        if entry.state().becomes_deferred() {
            self.packets.push(entry.clone());
        }
    }

    /// Defers requests of a queue pair on the wire.
    pub(crate) fn defer_requests(&self, entry: &Arc<QpEntry>) {
        self.defer_ack(entry);
        self.has_requests.store(true, SeqCst);
    }

    /// Exchanges the list of queue pairs on the wire for an empty one.
    pub(crate) fn take_packets(&self, list: &mut VecDeque<Arc<QpEntry>>) {
        debug_assert!(list.is_empty(), "the caller brings an empty list");
        self.has_requests.store(false, SeqCst);
        self.packets.swap(list);
    }

    /// Defers the ACK of a locked queue pair for a peer on this host. True if it was not on the list.
    #[inline]
    pub(crate) fn defer_frame(&self, entry: &Arc<QpEntry>, cell: &mut QpCell) -> bool {
        cell.idle_turns = 0;
        let is_new = entry.state().becomes_frame_listed();
        if is_new {
            self.frames.push(entry.clone());
        }
        is_new
    }

    /// Gives each queue pair with a deferred frame a turn: `serve` sends its ACK if it has one.
    pub(crate) fn serve_frames(&self, mut serve: impl FnMut(&Arc<QpEntry>, &mut QpCell)) {
        let mut entries = self.frames.take();
        let may_stay = entries.len() <= MAX_STAYING;
        entries.retain(|entry| {
            let mut cell = entry.lock();
            serve(entry, &mut cell);
            cell.idle_turns += 1;
            let stays = may_stay && cell.idle_turns < MAX_IDLE_TURNS && cell.live.is_some();
            if !stays {
                entry.state().is_not_frame_listed();
            }
            stays
        });
        self.frames.put_back(entries);
    }
}

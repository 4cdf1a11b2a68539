//! From queue pairs to the socket: staging what they have to send.

use std::sync::Arc;

use transport::Time;

use crate::clock;
use crate::engine::Engine;
use crate::engine::scratch::Scratch;
use crate::objects::counters::Counter;
use crate::qp::entry::{Live, QpCell, QpEntry};
use crate::qp::host::{Host, Outcome};
use crate::wire::destination::{Destination, Share};
use crate::wire::staging::{Staging, TxToken};

/// Packets that one queue pair stages before others have their turn.
pub(crate) const TURN_PACKETS: usize = 256;
/// Turns after which a call leaves the rest to the next one.
const MAX_TURNS: usize = 64;

/// What a packet costs beyond its bytes, as the transport's windows have it.
const PACKET_OVERHEAD_BYTES: usize = 128;

/// Where a packet has the high byte of its destination QPN.
pub(crate) const DEST_SLOT: usize = 5;

/// How staging ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Staged {
    /// There is nothing more to send for now.
    All,
    /// There may be more.
    Some,
}

/// The most that a queue pair may stage before others have their turn.
struct Turn {
    packets: usize,
    /// Of requests that were never sent.
    bytes: u64,
}

/// When an acknowledge leaves that is all a queue pair has to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acks {
    /// As soon as what has arrived is handled.
    Now,
    /// With what the application posts next, or else at its next call: it polls, so it
    /// will be back. The background thread sends it at the latest.
    Later,
}

impl Engine {
    /// Sends what the touched queue pairs have, and what there is in staging.
    #[inline]
    pub(crate) fn pump_touched(&self, scratch: &mut Scratch) {
        if !scratch.touched.is_empty() {
            self.pump_each(scratch);
        }
        // Sending may show that somebody wanted to send meanwhile.
        while !scratch.staging.is_empty() {
            self.flush(scratch);
            self.pump_each(scratch);
        }
    }

    fn pump_each(&self, scratch: &mut Scratch) {
        if scratch.touched.is_empty() {
            return;
        }
        let now = clock::now();
        for _ in 0..MAX_TURNS.max(scratch.touched.len()) {
            let Some(entry) = scratch.touched.pop_front() else { return };
            let staged = {
                let mut cell = entry.lock();
                self.stage(&entry, &mut cell, &mut scratch.staging, &mut scratch.outcome, now)
            };
            if staged == Staged::Some {
                self.flush(scratch);
                scratch.touched.push_back(entry);
            }
        }
        self.put_back(scratch);
    }

    /// Leaves what is still to be sent to the next call, whoever makes it.
    #[cold]
    fn put_back(&self, scratch: &mut Scratch) {
        if scratch.touched.is_empty() {
            return;
        }
        self.backlog.lock().extend(scratch.touched.drain(..));
        self.backlogged.store(true, std::sync::atomic::Ordering::SeqCst);
        self.background.kick();
    }

    /// Whether there is something that earlier calls have left.
    pub(crate) fn is_backlogged(&self) -> bool {
        self.backlogged.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// Takes over what earlier calls have left.
    pub(crate) fn take_backlog(&self, scratch: &mut Scratch) {
        if self.backlogged.load(std::sync::atomic::Ordering::Relaxed) {
            let mut backlog = self.backlog.lock();
            self.backlogged.store(false, std::sync::atomic::Ordering::SeqCst);
            scratch.touched.extend(backlog.drain(..));
        }
    }

    /// Stages packets of a locked queue pair. If somebody else is about to send for it
    /// already, that one will look again.
    pub(crate) fn stage(
        &self,
        entry: &Arc<QpEntry>,
        cell: &mut QpCell,
        staging: &mut Staging,
        outcome: &mut Outcome,
        now: Time,
    ) -> Staged {
        cell.touched = false;
        let Some(live) = cell.live.as_mut() else { return Staged::All };
        if live.qp.is_shm() {
            let shm = live.shm.as_ref();
            let host = &mut Host { engine: self, entry, parents: &live.parents, shm, outcome };
            live.qp.progress(true, host);
            self.after_shm(entry, live);
            self.rearm(entry, cell);
            return Staged::All;
        }
        let most = match self.shm {
            Some(_) => self.send_to_neighbours(entry, live, staging, outcome, now),
            None => TURN_PACKETS,
        };
        if !entry.take_tx() {
            return Staged::All;
        }
        staging.begin(TxToken::new(entry.clone()));
        let turn = Turn { packets: most, bytes: self.allowance(live) };
        let staged = self.fill(entry, live, staging, outcome, now, turn);
        self.account(entry, live, now);
        if staged == Staged::All {
            cell.doorbells.answered();
            entry.is_not_due();
        }
        self.rearm(entry, cell);
        staged
    }

    fn fill(
        &self,
        entry: &QpEntry,
        live: &mut Live,
        staging: &mut Staging,
        outcome: &mut Outcome,
        now: Time,
        mut turn: Turn,
    ) -> Staged {
        for _ in 0..turn.packets {
            let Some(room) = staging.room() else { return Staged::Some };
            let host = &mut Host { engine: self, entry, parents: &live.parents, shm: live.shm.as_ref(), outcome };
            let Some(transmit) = live.qp.poll_transmit(now, room, host) else { return Staged::All };
            let slot = room[DEST_SLOT];
            if !live.route.as_ref().is_some_and(|route| route.serves(&transmit, slot)) {
                live.route = self.route(&transmit, slot, entry.context().interface());
            }
            let Some(route) = &live.route else {
                self.counters.add(Counter::TxOther, 1);
                continue;
            };
            let together = self.tx.segmentation_offload(route.flow(), route.traffic_class());
            if self.faults.is_active() {
                self.commit_with_faults(staging, route, transmit.len_bytes, together);
            } else {
                staging.commit(route, transmit.len_bytes, together);
            }
            turn.bytes = turn.bytes.saturating_sub((transmit.len_bytes + PACKET_OVERHEAD_BYTES) as u64);
            if turn.bytes == 0 {
                live.qp.hold_requests(true);
            }
            if live.qp.is_idle() {
                return Staged::All;
            }
            if !self.stays_on_wire(live) {
                break;
            }
        }
        Staged::Some
    }

    /// How much a queue pair may send that was never sent: all of it, or what its destination has room for.
    #[inline]
    fn allowance(&self, live: &mut Live) -> u64 {
        if live.share.is_none() {
            let Some((address, peer)) = live.qp.peer() else { return u64::MAX };
            live.share = Some(self.destinations.join(address.destination, peer));
        }
        let allowance = live.share.as_mut().map_or(u64::MAX, Share::allowance);
        live.qp.hold_requests(allowance == 0);
        allowance
    }

    /// Tells its destination what a queue pair has in flight after it has sent, and queues it up if it had to
    /// stop before all was sent.
    fn account(&self, entry: &Arc<QpEntry>, live: &mut Live, now: Time) {
        let Live { qp, share: Some(share), .. } = live else { return };
        share.note_unanswered(qp.unanswered_probes(), now);
        share.charge(|| qp.in_flight_bytes());
        share.note_resent(qp.counters().retransmitted_packets, now);
        if share.has_lapsed() {
            qp.hold_requests(true);
        } else if qp.is_held_back() {
            share.wait(entry.clone());
        } else if !share.waits() {
            qp.hold_requests(false);
        }
        self.share_out(share.destination());
    }

    /// A queue pair sends no more to its peer; what it had in flight makes room for others.
    pub(crate) fn leave_destination(&self, share: Option<Share<Arc<QpEntry>>>) {
        let Some(share) = share else { return };
        let destination = share.destination().clone();
        drop(share);
        self.share_out(&destination);
    }

    /// Lets those send whose turn has come: their destination has room again.
    fn share_out(&self, destination: &Destination<Arc<QpEntry>>) {
        if !destination.is_waited_for() {
            return;
        }
        let mut backlog = self.backlog.lock();
        destination.grant(|entry| backlog.push(entry));
        if !backlog.is_empty() {
            self.backlogged.store(true, std::sync::atomic::Ordering::SeqCst);
            self.background.kick();
        }
    }

    /// When acknowledges leave that come up during a call of the application. If the
    /// background thread is blocked the application polls rarely: it may not be back soon.
    #[inline]
    pub(crate) fn acks_of_application(&self) -> Acks {
        if self.background.is_blocked() { Acks::Now } else { Acks::Later }
    }

    /// Sees to a locked queue pair that has taken packets in: whether it has to send, at
    /// once or with the application's next call, and when it wants to be called again.
    pub(crate) fn note_work(&self, entry: &Arc<QpEntry>, cell: &mut QpCell, scratch: &mut Scratch, acks: Acks) {
        let Some(live) = cell.live.as_mut() else { return };
        self.after_shm(entry, live);
        if let Some(share) = &mut live.share {
            if share.is_silent() && live.qp.unanswered_probes() == 0 {
                share.heard();
                live.qp.hold_requests(share.waits());
            }
            share.charge(|| live.qp.in_flight_bytes());
            self.share_out(share.destination());
        }
        let ack_due = live.qp.ack_due();
        if live.qp.wants_transmit() || ack_due && acks == Acks::Now {
            if !std::mem::replace(&mut cell.touched, true) {
                scratch.touched.push_back(entry.clone());
            }
        } else if ack_due && live.shm.is_some() {
            self.put_frame_off(entry, cell, scratch);
        } else if ack_due {
            self.counters.add(Counter::AcksDeferred, 1);
            self.put_off(entry);
        }
        self.rearm(entry, cell);
    }

    /// Sees to a locked queue pair that may have gone on towards a peer on this host.
    #[inline]
    pub(crate) fn after_shm(&self, entry: &Arc<QpEntry>, live: &mut Live) {
        self.show_to_peer(live);
        if let Some(end) = &live.shm
            && live.qp.waits_for_lane()
        {
            self.note_stalled(entry, &end.shortage());
        }
    }

    /// Enters the queue pair's deadline if it is earlier than the one it is entered with.
    #[inline]
    pub(crate) fn rearm(&self, entry: &QpEntry, cell: &mut QpCell) {
        let Some(live) = cell.live.as_ref() else { return };
        let Some(at) = live.qp.next_timeout() else { return };
        if at < cell.timer_at {
            cell.timer_at = at;
            self.timers.insert(at, entry.qpn());
            self.background.deadline(at);
        }
    }
}

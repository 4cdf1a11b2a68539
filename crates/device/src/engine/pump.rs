//! Gives ready queue pairs their turn to send, and looks after those that have taken something in.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use transport::Time;

use crate::clock;
use crate::engine::Engine;
use crate::engine::scratch::PathScratch;
use crate::objects::counters::EngineCounter;
use crate::path::shm_datagram::DatagramSender;
use crate::path::wire::{TURN_PACKETS, account_arrival};
use crate::path::{PathSink, SendCall, Staged};
use crate::qp::entry::{Live, PathKind, QpCell, QpEntry};
use crate::qp::host::Notices;

/// The number of turns after which a call leaves the rest to the next call.
const MAX_TURNS: usize = 64;

/// When an ACK leaves that is all a queue pair has to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AckTiming {
    /// When everything that has arrived is handled.
    Now,
    /// With the application's next request, or at its next call: an application that polls will be back soon. The
    /// background thread sends it at the latest.
    Deferred,
}

/// The engine as one call to receive sees it.
pub(crate) struct EngineSink<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) scratch: &'a mut PathScratch,
    pub(crate) acks: AckTiming,
}

impl PathSink for EngineSink<'_> {
    #[inline]
    fn notices(&mut self) -> &mut Notices {
        &mut self.scratch.notices
    }

    #[inline]
    fn look_after(&mut self, entry: &Arc<QpEntry>, cell: &mut QpCell) {
        self.engine.look_after(entry, cell, self.scratch, self.acks);
    }
}

impl Engine {
    /// Sends for the ready queue pairs, and sends the staged packets.
    #[inline]
    pub(crate) fn send_ready(&self, scratch: &mut PathScratch) {
        if !scratch.ready.is_empty() {
            self.serve_ready(scratch);
        }
        // Flushing may show that another thread wanted to send meanwhile.
        while !scratch.staging.is_empty() {
            self.flush(scratch);
            self.serve_ready(scratch);
        }
    }

    fn serve_ready(&self, scratch: &mut PathScratch) {
        if scratch.ready.is_empty() {
            return;
        }
        let now = clock::now();
        for _ in 0..MAX_TURNS.max(scratch.ready.len()) {
            let Some(entry) = scratch.ready.pop_front() else { return };
            let staged = self.transmit(&entry, &mut entry.lock(), scratch, now);
            if staged == Staged::Some {
                self.flush(scratch);
                scratch.ready.push_back(entry);
            }
        }
        if !scratch.ready.is_empty() {
            self.schedule.leave(scratch.ready.drain(..));
        }
    }

    #[inline]
    fn flush(&self, scratch: &mut PathScratch) {
        let PathScratch { staging, ready, .. } = scratch;
        self.wire.flush(&self.services, staging, |entry| ready.push_back(entry));
    }

    /// Sends for a locked queue pair on its path: frames at once, packets into the staging.
    pub(crate) fn transmit(
        &self,
        entry: &Arc<QpEntry>,
        cell: &mut QpCell,
        scratch: &mut PathScratch,
        now: Time,
    ) -> Staged {
        entry.state().is_served();
        let Some(live) = cell.live.as_mut() else { return Staged::All };
        let staged = match (live.path(), &self.shm) {
            (PathKind::Shm, Some(shm)) => {
                shm.transmit(&self.services, &self.schedule, entry, live, &mut scratch.notices, true);
                Staged::All
            }
            (path, _) => match self.stage(entry, live, scratch, now, path) {
                Staged::Busy => return Staged::Busy,
                Staged::Some => Staged::Some,
                Staged::All => {
                    cell.doorbells.answered();
                    entry.state().is_not_deferred();
                    Staged::All
                }
            },
        };
        self.schedule.set_timer(entry, cell);
        staged
    }

    /// Stages packets of a locked queue pair. Datagrams to this host leave as frames.
    fn stage(
        &self,
        entry: &Arc<QpEntry>,
        live: &mut Live,
        scratch: &mut PathScratch,
        now: Time,
        path: PathKind,
    ) -> Staged {
        debug_assert_ne!(path, PathKind::Shm, "without links no queue pair has this path");
        let PathScratch { staging, notices, .. } = scratch;
        let call = &mut SendCall { services: &self.services, entry, staging, notices, now };
        let staged = match (path, self.datagram_sender()) {
            (PathKind::PerDatagram, Some(sender)) => {
                let max = sender.send(call, live, TURN_PACKETS);
                self.wire.transmit(call, live, max, |live| sender.stays_on_wire(live))
            }
            _ => self.wire.transmit(call, live, TURN_PACKETS, |_| true),
        };
        if let Some(share) = &live.wire.share {
            self.schedule.grant_turns(share.destination());
        }
        if self.services.faults.is_active() {
            self.schedule.background.deadline(self.services.faults.earliest());
        }
        staged
    }

    fn datagram_sender(&self) -> Option<DatagramSender<'_, impl Fn() -> io::Result<OwnedFd>, impl Fn()>> {
        Some(DatagramSender {
            path: self.shm.as_ref()?,
            services: &self.services,
            schedule: &self.schedule,
            bell: || self.watch.copy_bell(),
            ask_hub: || self.schedule.background.ask_hub(),
        })
    }

    /// When ACKs leave that come up during a call of the application. If the background thread is blocked, the
    /// application polls rarely, and may not be back soon.
    #[inline]
    pub(crate) fn acks_of_application(&self) -> AckTiming {
        if self.schedule.background.is_blocked() { AckTiming::Now } else { AckTiming::Deferred }
    }

    /// Looks after a locked queue pair that has taken something in: whether it has to send, now or with the
    /// application's next call, and its next deadline.
    pub(crate) fn look_after(
        &self,
        entry: &Arc<QpEntry>,
        cell: &mut QpCell,
        scratch: &mut PathScratch,
        acks: AckTiming,
    ) {
        let Some(live) = cell.live.as_mut() else { return };
        if let Some(shm) = &self.shm {
            shm.look_after(&self.schedule, entry, live);
        }
        account_arrival(live);
        if let Some(share) = &live.wire.share {
            self.schedule.grant_turns(share.destination());
        }
        let ack_due = live.qp.ack_due();
        if live.qp.wants_transmit() || ack_due && acks == AckTiming::Now {
            if entry.state().becomes_ready() {
                scratch.ready.push_back(entry.clone());
            }
        } else if ack_due && live.shm.is_some() {
            scratch.acks.start();
            self.schedule.defer_frame(entry, cell);
        } else if ack_due {
            self.services.counters.add(EngineCounter::AcksDeferred, 1);
            self.schedule.defer_ack(entry);
        }
        self.schedule.set_timer(entry, cell);
    }

    /// Sends everything that was deferred on the wire and has not left since.
    #[inline]
    pub(crate) fn send_deferred(&self, scratch: &mut PathScratch) {
        let deferred = &self.schedule.deferred;
        if !deferred.has_packets() {
            return;
        }
        let PathScratch { ready, spare, .. } = scratch;
        deferred.take_packets(spare);
        ready.extend(spare.drain(..).filter(|entry| entry.state().take_deferred()));
        self.send_ready(scratch);
    }

    /// Sends deferred requests, on a call of the application that drives nothing else.
    #[inline]
    pub(crate) fn send_deferred_requests(&self) {
        if self.schedule.deferred.has_requests() {
            self.with_scratch(|scratch| self.send_deferred(&mut scratch.path));
        }
    }

    /// Sends deferred ACKs to peers on this host, and retries what waited for room in a lane.
    #[inline]
    pub(crate) fn serve_waiting_frames(&self, scratch: &mut PathScratch) {
        if self.schedule.deferred.has_frames() {
            self.send_deferred_frames(scratch);
        }
        if !self.schedule.stalled.is_empty() {
            self.schedule.stalled.serve(|entry| self.retry(entry, scratch));
        }
    }

    fn send_deferred_frames(&self, scratch: &mut PathScratch) {
        self.schedule.deferred.serve_frames(|entry, cell| {
            if cell.live.as_ref().is_some_and(|live| live.qp.ack_due()) {
                self.look_after(entry, cell, scratch, AckTiming::Now);
            }
        });
        // The background thread may have blocked while the list was empty.
        self.schedule.background.kick();
        self.send_ready(scratch);
    }

    /// Whether there was room for everything that the queue pair had to send.
    fn retry(&self, entry: &Arc<QpEntry>, scratch: &mut PathScratch) -> bool {
        let mut cell = entry.lock();
        if let Some(live) = &mut cell.live {
            live.qp.resume_sending();
        }
        self.look_after(entry, &mut cell, scratch, AckTiming::Now);
        drop(cell);
        self.send_ready(scratch);
        !entry.state().is_stalled()
    }
}

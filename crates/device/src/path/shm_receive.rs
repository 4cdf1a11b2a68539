//! The shared-memory path: from lanes to queue pairs.
//!
//! As on the wire, consecutive frames for one queue pair are handled under one lock of it, and responses follow after
//! them.

use std::sync::Arc;

use memory::Span;
use shm::{Consumer, Frame};
use transport::DropReason;
use transport::shm::frame::{FrameHead, FrameKind};

use crate::objects::counters::EngineCounter;
use crate::path::shm::LanePath;
use crate::path::shm_poll::LaneView;
use crate::path::{PathSink, shm_datagram};
use crate::qp::entry::{Live, QpCell, QpEntry};
use crate::qp::services::QpServices;
use crate::qp::slots::LastQp;
use crate::schedule::Schedule;
use crate::shm::frame::FrameBody;
use crate::shm::lane::{head_of, send_head};
use crate::shm::link::ShmLink;

/// The frames of one lane that are handled before others have their turn.
const TURN_FRAMES: usize = 64;

/// One turn with the lanes of a link.
pub(crate) struct FrameReceive<'a, S> {
    pub(crate) path: &'a LanePath,
    pub(crate) services: &'a QpServices,
    pub(crate) schedule: &'a Schedule,
    pub(crate) sink: &'a mut S,
}

/// The end of a turn with the frames for one queue pair.
struct FramesTaken {
    count: usize,
    /// No further frame of the lane may be handled in this turn.
    is_over: bool,
}

impl<S: PathSink> FrameReceive<'_, S> {
    /// Takes the frames of all lanes, and counts them in the view. Whether there were any.
    #[inline]
    pub(crate) fn receive(&mut self, view: &mut LaneView) -> bool {
        self.path.refresh(view);
        let LaneView { links: Some(links), last, .. } = view else { return false };
        let mut frames = 0;
        for link in links.iter() {
            frames += self.drain_link(link, last);
        }
        view.frames += frames as u64;
        view.taken += frames as u32;
        frames > 0
    }

    /// Has a turn with each lane in which a frame waits. Returns the number of frames.
    #[inline]
    pub(crate) fn drain_link(&mut self, link: &Arc<ShmLink>, last: &mut LastQp) -> usize {
        let mut frames = 0;
        let mut lanes = link.waiting();
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            frames += self.drain_lane(link, lane, last);
        }
        frames
    }

    fn drain_lane(&mut self, link: &Arc<ShmLink>, lane: usize, last: &mut LastQp) -> usize {
        let Some(mut lane) = link.consumer(lane) else { return 0 };
        let mut left = TURN_FRAMES;
        while left > 0 {
            let Some(frame) = lane.peek() else { break };
            let Some(head) = head_of(&frame) else {
                self.services.counters.add(EngineCounter::DropShmMalformed, 1);
                frame.release();
                left -= 1;
                continue;
            };
            let taken = match last.find(&self.services.slots, head.dst) {
                Some(entry) => self.handle_frames(entry, link, &mut lane, left),
                None if self.answer_not_ready(link, &head) => {
                    frame.release();
                    FramesTaken { count: 1, is_over: false }
                }
                None => FramesTaken { count: 0, is_over: true },
            };
            debug_assert!(taken.count <= left, "a turn has a limit");
            left -= taken.count;
            if taken.is_over || taken.count == 0 {
                break;
            }
        }
        TURN_FRAMES - left
    }

    /// Handles the next frames, which are for one queue pair.
    ///
    /// The turn is over when datagrams have taken the last receive WQE: the application may post more before the next.
    fn handle_frames(
        &mut self,
        entry: &Arc<QpEntry>,
        link: &Arc<ShmLink>,
        lane: &mut Consumer<'_>,
        max: usize,
    ) -> FramesTaken {
        let mut taken = FramesTaken { count: 0, is_over: false };
        let is_recorded = link.is_recorded();
        let mut cell = entry.lock();
        while taken.count < max {
            let Some(frame) = lane.peek() else { break };
            let Some(head) = head_of(&frame).filter(|head| head.dst == entry.qpn()) else { break };
            if head.kind == FrameKind::Datagram && taken.count > 0 && !has_receives(&cell) {
                taken.is_over = true;
                break;
            }
            let result = self.handle_frame(entry, cell.live.as_mut(), link, &head, &frame);
            if is_recorded && !matches!(result, Err(DropReason::QpState | DropReason::WrongSource)) {
                self.record(cell.live.as_ref(), link, &{ head }, frame.span(0, frame.len_bytes()));
            }
            if !self.settle_frame(link, &head, result) {
                taken.is_over = true;
                break;
            }
            frame.release();
            taken.count += 1;
        }
        self.sink.look_after(entry, &mut cell);
        taken
    }

    /// Hands a frame to its queue pair.
    #[inline]
    fn handle_frame(
        &mut self,
        entry: &Arc<QpEntry>,
        live: Option<&mut Live>,
        link: &Arc<ShmLink>,
        head: &FrameHead,
        frame: &Frame<'_, '_>,
    ) -> Result<(), DropReason> {
        let services = self.services;
        let Some(live) = live else { return Err(DropReason::QpState) };
        if head.kind == FrameKind::Datagram {
            let (qp, mut host) = live.hosted(services, entry, self.sink.notices());
            return shm_datagram::receive(services, qp, head, frame, &mut host);
        }
        if !live.shm.as_ref().is_some_and(|endpoint| endpoint.is_on(link)) {
            return Err(DropReason::QpState);
        }
        let (qp, mut host) = live.hosted(services, entry, self.sink.notices());
        if services.faults.is_active() && head.kind.is_request() && services.faults.lose(&services.counters) {
            // To its sender it is as if the queue pair had not been there.
            qp.lose_frame(head);
            return Err(DropReason::QpState);
        }
        let span = frame.span(0, frame.len_bytes());
        match span.and_then(|span| FrameBody::new(link, &services.registry, head, span)) {
            Some(body) => qp.handle_frame(head, &body, &mut host),
            None => {
                services.counters.add(EngineCounter::DropShmMalformed, 1);
                Ok(())
            }
        }
    }

    /// Counts a dropped frame, and tells the sender of a request that the queue pair did not take it. False if there is
    /// no room for that: the frame stays in the lane.
    #[inline]
    fn settle_frame(&self, link: &Arc<ShmLink>, head: &FrameHead, result: Result<(), DropReason>) -> bool {
        let counters = &self.services.counters;
        match result {
            // Our memory has refused the peer's processor.
            Ok(()) if head.kind == FrameKind::Refused => counters.dropped(DropReason::Refused),
            Ok(()) => {}
            Err(DropReason::QpState | DropReason::WrongSource) if head.kind != FrameKind::Datagram => {
                return self.answer_not_ready(link, head);
            }
            Err(reason) => counters.dropped(reason),
        }
        true
    }

    /// Tells the capture of a frame that a queue pair has seen.
    #[cold]
    #[inline(never)]
    fn record(&self, live: Option<&Live>, link: &Arc<ShmLink>, head: &FrameHead, frame: Option<Span<'_>>) {
        let body = frame.and_then(|span| FrameBody::new(link, &self.services.registry, head, span));
        if let (Some(endpoint), Some(body)) = (live.and_then(|live| live.shm.as_ref()), body)
            && head.kind != FrameKind::Datagram
        {
            endpoint.record_arrived(head, &body);
        }
    }

    /// Tells the sender of a request that no queue pair takes it. False if there is no room for that.
    #[cold]
    fn answer_not_ready(&self, link: &Arc<ShmLink>, head: &FrameHead) -> bool {
        if !head.kind.wants_answer() {
            match head.kind {
                FrameKind::Datagram => self.services.counters.add(EngineCounter::DropUnknownQp, 1),
                _ => self.services.counters.dropped(DropReason::GhostResponse),
            }
            return true;
        }
        let response = head.not_ready();
        send_head(link, &response) || link.is_dead() || self.schedule.owe(link, response)
    }
}

fn has_receives(cell: &QpCell) -> bool {
    cell.live.as_ref().is_none_or(|live| live.qp.has_receives())
}

//! From lanes to queue pairs.
//!
//! As on the wire, consecutive frames for one queue pair are handled under one lock of it, and
//! whatever has to be said in answer is noted and said after them.

use std::sync::Arc;

use memory::Span;
use shm::{Consumer, Frame, LANES};
use transport::shm::frame::{FrameHead, FrameKind, HEAD_BYTES};
use transport::{DropReason, Time};
use wire::Qpn;

use crate::clock;
use crate::engine::Engine;
use crate::engine::scratch::Scratch;
use crate::objects::counters::Counter;
use crate::path::pump::Acks;
use crate::qp::entry::{Live, QpEntry};
use crate::qp::host::Host;
use crate::shm::arrived::FrameBody;
use crate::shm::links::ShmLink;

/// Frames of one lane that are handled before others have their turn.
const TURN_FRAMES: usize = 64;

/// About how often an application that polls looks at everything, and how many looks at empty lanes, and how many
/// turns and frames, come between at most. One that polls more slowly looks at everything each time. (Frames count,
/// since a turn with large ones lasts so long that the background thread would step in; turns, since one may take none.)
const STEP_INTERVAL_NS: u64 = 500;
const MAX_LOOKS_PER_STEP: u64 = 64;
const TAKEN_PER_STEP: u32 = 64;
/// Looks at the lanes after which acknowledges leave that were put off.
const LOOKS_PER_ACK: u32 = 8;

/// The links as a thread that polls last saw them, and what it remembers of its last looks.
#[derive(Default)]
pub(crate) struct Seen {
    version: u64,
    links: Option<Arc<[Arc<ShmLink>]>>,
    /// The queue pair of the last frame, and the removals of queue pairs before.
    last: Option<(Arc<QpEntry>, u32)>,
    /// Looks at empty lanes since the last step, and turns and frames; all of them before it.
    looks: u32,
    taken: u32,
    polls: u32,
    /// Looks for each step as the application's pace allows it; zero and one are one.
    per_step: u32,
    last_step: Time,
    /// Looks left until acknowledges leave that were put off; zero if none was.
    until_acks: u32,
    /// Frames that are not counted yet.
    frames: u64,
}

impl Seen {
    /// An acknowledge was put off.
    #[inline]
    pub(crate) fn note_put_off(&mut self) {
        self.until_acks = LOOKS_PER_ACK;
    }

    /// What is to be done with empty lanes.
    #[inline]
    fn look(&mut self) -> Turn {
        let was = self.until_acks;
        self.until_acks = was.saturating_sub(1);
        if was == 1 { Turn::Acks } else { Turn::Nothing }
    }
}

/// How an application polls that has peers on this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) now: Time,
    /// Polls since the last step.
    pub(crate) polls: u32,
}

/// What a poll of the application has to look at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// The lanes are empty, and the rest was looked at a moment ago.
    Nothing,
    /// There are frames.
    Frames,
    /// The lanes are empty, and acknowledges were put off a moment ago.
    Acks,
    /// It is time to look at everything.
    Everything,
}

impl Engine {
    /// What a poll has to look at: a look at the lanes of peers on this host costs some nanoseconds, all the
    /// rest a hundred times as many.
    #[inline]
    pub(crate) fn shm_turn(&self, scratch: &mut Scratch) -> Turn {
        let (Some(shm), Some(links)) = (&self.shm, &scratch.seen.links) else { return Turn::Everything };
        if scratch.seen.version != shm.links.version() || links.is_empty() {
            return Turn::Everything;
        }
        let waiting = links.iter().any(|link| link.waiting() != 0);
        let seen = &mut scratch.seen;
        seen.looks += u32::from(!waiting);
        seen.taken += u32::from(waiting);
        if waiting && seen.taken < TAKEN_PER_STEP {
            return Turn::Frames;
        }
        if !waiting && seen.looks < seen.per_step {
            return seen.look();
        }
        seen.polls = seen.looks + seen.taken;
        (seen.looks, seen.taken, seen.until_acks) = (0, 0, 0);
        self.count_frames(scratch);
        Turn::Everything
    }

    /// Tells of frames that this thread has taken.
    pub(crate) fn count_frames(&self, scratch: &mut Scratch) {
        self.counters.add(Counter::ShmFrames, std::mem::take(&mut scratch.seen.frames));
    }

    /// Notes a step of the application; nothing if there are no peers on this host.
    pub(crate) fn pace(&self, scratch: &mut Scratch) -> Option<Pace> {
        if !self.has_links(scratch) {
            return None;
        }
        let now = clock::now();
        let seen = &mut scratch.seen;
        let polls = std::mem::take(&mut seen.polls).max(1);
        let took_ns = now.since(std::mem::replace(&mut seen.last_step, now)).as_nanos() as u64;
        let allowed = STEP_INTERVAL_NS * u64::from(polls) / took_ns.max(1);
        seen.per_step = allowed.min(MAX_LOOKS_PER_STEP) as u32;
        Some(Pace { now, polls })
    }

    /// Takes what has come on the lanes. Returns whether anything has.
    #[inline]
    pub(crate) fn receive_frames(&self, acks: Acks, scratch: &mut Scratch) -> bool {
        let Some(shm) = &self.shm else { return false };
        if scratch.seen.version != shm.links.version() {
            let version = shm.links.version();
            scratch.seen =
                Seen { version, links: Some(shm.links.all()), frames: scratch.seen.frames, ..Seen::default() };
        }
        let Some(links) = scratch.seen.links.take() else { return false };
        let mut frames = 0;
        for link in &*links {
            frames += self.drain_link(link, acks, scratch);
        }
        scratch.seen.links = Some(links);
        scratch.seen.frames += frames as u64;
        scratch.seen.taken += frames as u32;
        frames > 0
    }

    /// A turn with each lane on which something waits.
    #[inline]
    pub(crate) fn drain_link(&self, link: &ShmLink, acks: Acks, scratch: &mut Scratch) -> usize {
        let mut frames = 0;
        let mut lanes = link.waiting();
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            frames += self.drain_lane(link, lane, acks, scratch);
        }
        frames
    }

    /// Whether something waits on a lane.
    pub(crate) fn frames_wait(&self) -> bool {
        let waits = |link: &Arc<ShmLink>| link.waiting() != 0;
        self.shm.as_ref().is_some_and(|shm| shm.links.all().iter().any(waits))
    }

    /// Whether there are peers on this host.
    #[inline]
    pub(crate) fn has_links(&self, scratch: &Scratch) -> bool {
        scratch.seen.links.as_ref().is_some_and(|links| !links.is_empty())
    }

    fn drain_lane(&self, link: &ShmLink, lane: usize, acks: Acks, scratch: &mut Scratch) -> usize {
        let Some(mut lane) = link.consumer(lane) else { return 0 };
        let mut left = TURN_FRAMES;
        while left > 0 {
            let Some(frame) = lane.peek() else { break };
            let Some(head) = head_of(&frame) else {
                self.counters.add(Counter::DropShmMalformed, 1);
                frame.release();
                left -= 1;
                continue;
            };
            let (handled, over) = match self.entry_of(head.dst, scratch) {
                Some(entry) => {
                    let handled = self.handle_frames(&entry.0, link, &mut lane, left, acks, scratch);
                    scratch.seen.last = Some(entry);
                    handled
                }
                None if self.tell_not_ready(link, &head) => {
                    frame.release();
                    (1, false)
                }
                None => (0, true),
            };
            left -= handled;
            if over || handled == 0 {
                break;
            }
        }
        TURN_FRAMES - left
    }

    /// The queue pair of a number, which is often that of the last frame.
    #[inline]
    fn entry_of(&self, qpn: Qpn, scratch: &mut Scratch) -> Option<(Arc<QpEntry>, u32)> {
        let removals = self.slots.removals();
        match scratch.seen.last.take() {
            Some(last) if last.0.qpn() == qpn && last.1 == removals => Some(last),
            _ => self.slots.qp(qpn).map(|entry| (entry, removals)),
        }
    }

    /// Handles the frames for one queue pair that come next; returns how many, and whether this turn is over.
    /// It is when datagrams have taken the last receive WQE: the application may post more before the next turn.
    fn handle_frames(
        &self,
        entry: &Arc<QpEntry>,
        link: &ShmLink,
        lane: &mut Consumer<'_>,
        most: usize,
        acks: Acks,
        scratch: &mut Scratch,
    ) -> (usize, bool) {
        let (mut handled, mut over) = (0, false);
        let is_recorded = link.is_recorded();
        let mut cell = entry.lock();
        while handled < most {
            let Some(frame) = lane.peek() else { break };
            let Some(head) = head_of(&frame).filter(|head| head.dst == entry.qpn()) else { break };
            let outcome = match cell.live.as_mut() {
                Some(live) if head.kind == FrameKind::Datagram => {
                    if handled > 0 && !live.qp.has_receives() {
                        over = true;
                        break;
                    }
                    let (parents, shm) = (&live.parents, live.shm.as_ref());
                    let mut host = Host { engine: self, entry, parents, shm, outcome: &mut scratch.outcome };
                    self.take_datagram(&mut live.qp, &head, &frame, &mut host)
                }
                Some(live) if live.shm.as_ref().is_some_and(|end| end.is_link(link)) => {
                    let mut host = Host {
                        engine: self,
                        entry,
                        parents: &live.parents,
                        shm: live.shm.as_ref(),
                        outcome: &mut scratch.outcome,
                    };
                    self.handle_frame(&mut live.qp, link, &head, &frame, &mut host)
                }
                _ => Err(DropReason::QpState),
            };
            if is_recorded && !matches!(outcome, Err(DropReason::QpState | DropReason::WrongSource)) {
                self.record_arrived(cell.live.as_ref(), link, &{ head }, frame.span(0, frame.len_bytes()));
            }
            match outcome {
                // The peer's processor was told no by our memory.
                Ok(()) if head.kind == FrameKind::Refused => self.counters.dropped(DropReason::Refused),
                Ok(()) => {}
                Err(DropReason::QpState | DropReason::WrongSource) if head.kind != FrameKind::Datagram => {
                    if !self.tell_not_ready(link, &head) {
                        over = true;
                        break;
                    }
                }
                Err(reason) => self.counters.dropped(reason),
            }
            frame.release();
            handled += 1;
        }
        self.note_work(entry, &mut cell, scratch, acks);
        (handled, over)
    }

    #[inline]
    fn handle_frame(
        &self,
        qp: &mut transport::Qp,
        link: &ShmLink,
        head: &FrameHead,
        frame: &Frame<'_, '_>,
        host: &mut Host<'_>,
    ) -> Result<(), DropReason> {
        if self.faults.is_active() && head.kind.is_request() && self.faults.lose(&self.counters) {
            // To its sender it is as if nobody had been there.
            qp.lose_frame(head);
            return Err(DropReason::QpState);
        }
        let memory = self.registry();
        let body = frame.span(0, frame.len_bytes()).and_then(|span| FrameBody::new(link, memory, head, span));
        match body {
            Some(body) => qp.handle_frame(head, &body, host),
            None => {
                self.counters.add(Counter::DropShmMalformed, 1);
                Ok(())
            }
        }
    }

    /// Tells the capture of a frame that a queue pair has seen.
    #[cold]
    #[inline(never)]
    fn record_arrived(&self, live: Option<&Live>, link: &ShmLink, head: &FrameHead, frame: Option<Span<'_>>) {
        let body = frame.and_then(|span| FrameBody::new(link, self.registry(), head, span));
        if let (Some(end), Some(body)) = (live.and_then(|live| live.shm.as_ref()), body)
            && head.kind != FrameKind::Datagram
        {
            end.record_arrived(head, &body);
        }
    }

    /// Tells the sender of a request that nobody takes it. False if there is no room for that.
    #[cold]
    fn tell_not_ready(&self, link: &ShmLink, head: &FrameHead) -> bool {
        if !head.kind.wants_answer() {
            match head.kind {
                FrameKind::Datagram => self.counters.add(Counter::DropUnknownQp, 1),
                _ => self.counters.dropped(DropReason::GhostResponse),
            }
            return true;
        }
        let answer = head.not_ready();
        send_head(link, &answer) || link.is_dead() || self.owe(link, answer)
    }

    /// Sends an answer later, when there is room.
    fn owe(&self, link: &ShmLink, answer: FrameHead) -> bool {
        let all = self.shm.as_ref().map(|shm| shm.links.all());
        let link = all.as_ref().and_then(|all| all.iter().find(|other| std::ptr::eq(&***other, link)));
        link.is_some_and(|link| self.note_owed(link, answer))
    }
}

/// The lane on which a queue pair answers.
pub(crate) fn lane_of(head: &FrameHead) -> usize {
    usize::from(head.src.index()) % LANES
}

/// Sends a frame that is only a head. False if there is no room.
pub(crate) fn send_head(link: &ShmLink, head: &FrameHead) -> bool {
    let mut lane = link.producer(lane_of(head));
    let Some(mut room) = lane.reserve(HEAD_BYTES) else { return false };
    room.write(0, &head.encode());
    room.commit();
    true
}

#[inline]
fn head_of(frame: &Frame<'_, '_>) -> Option<FrameHead> {
    let mut bytes = [0; HEAD_BYTES];
    if frame.copy_out(0, &mut bytes) { FrameHead::decode(&bytes) } else { None }
}

//! One step of the engine: everything that is to be done at the moment.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use transport::Time;

use crate::clock;
use crate::engine::caller::StepCaller;
use crate::engine::pump::{AckTiming, EngineSink};
use crate::engine::scratch::{PathScratch, ThreadScratch};
use crate::engine::sockets::{SocketPoll, StepState};
use crate::engine::{Engine, rest};
use crate::path::shm_poll::LanePoll;
use crate::path::shm_receive::FrameReceive;
use crate::qp::entry::QpEntry;

/// The number of timers that one step serves at most.
const MAX_TIMERS: usize = 256;

impl Engine {
    /// Makes one step on the application's call. Returns whether anything had arrived.
    #[inline]
    pub(crate) fn progress(&self) -> bool {
        ThreadScratch::with(|scratch| {
            let poll = self.poll_lanes(scratch);
            self.carry_out(poll, scratch)
        })
    }

    /// Makes one step for a poll of a completion queue that has `wanted` completions. On a busy machine it may take until
    /// something arrives, for `longest` at most.
    #[inline]
    pub(crate) fn progress_for(&self, wanted: &AtomicU32, longest: Duration) {
        ThreadScratch::with(|scratch| {
            if scratch.rest.rests() && self.rest(wanted, longest, scratch) {
                return;
            }
            let poll = self.poll_lanes(scratch);
            let weight = if poll == LanePoll::Nothing { rest::LANE_POLL } else { rest::FULL_POLL };
            if self.carry_out(poll, scratch) {
                scratch.rest.found();
            } else if scratch.rest.is_due(weight) {
                self.ask_whether_busy(scratch);
            }
        });
    }

    #[inline]
    fn poll_lanes(&self, scratch: &mut ThreadScratch) -> LanePoll {
        let ThreadScratch { lanes, path, .. } = scratch;
        self.shm.as_ref().map_or(LanePoll::Everything, |shm| shm.poll(&self.services, lanes, &mut path.acks))
    }

    #[inline]
    fn carry_out(&self, poll: LanePoll, scratch: &mut ThreadScratch) -> bool {
        // Sockets are polled now and then only; requests do not wait for that.
        if self.schedule.deferred.has_requests() {
            self.send_deferred(&mut scratch.path);
        }
        match poll {
            LanePoll::Nothing => false,
            LanePoll::Frames => {
                let framed = self.receive_frames(self.acks_of_application(), scratch);
                self.send_ready_frames(&mut scratch.path);
                self.settle(&mut scratch.path);
                if framed {
                    self.watch.note_change();
                }
                framed
            }
            LanePoll::Acks => {
                self.serve_waiting_frames(&mut scratch.path);
                self.settle(&mut scratch.path);
                false
            }
            LanePoll::Everything => self.step(StepCaller::Application, scratch),
        }
    }

    /// Makes one step, and tells threads that nap if anything had arrived. It leaves the sockets that other threads
    /// receive from to them.
    pub(crate) fn step(&self, caller: StepCaller, scratch: &mut ThreadScratch) -> bool {
        let found = self.step_silently(caller, scratch);
        if found {
            self.watch.note_change();
        }
        found
    }

    #[inline(always)]
    fn step_silently(&self, caller: StepCaller, scratch: &mut ThreadScratch) -> bool {
        let acks = match caller {
            StepCaller::Application => self.acks_of_application(),
            StepCaller::Background => AckTiming::Now,
            StepCaller::StandIn => AckTiming::Deferred,
        };
        let framed = self.step_frames(acks, scratch);
        if framed && caller != StepCaller::Application {
            scratch.lanes.count_frames(&self.services);
        }
        let pace = if caller == StepCaller::Application { scratch.lanes.pace() } else { None };
        let step = &mut StepState { caller, acks, framed, pace, counted: false };
        let (arrival, expired) = match self.poll_sockets(step, scratch) {
            SocketPoll::Busy => return framed,
            SocketPoll::Quiet(now) => {
                self.activity.found(framed);
                let expired = self.run_timers(Some(now), &mut scratch.path);
                if expired {
                    self.send_ready(&mut scratch.path);
                    self.settle(&mut scratch.path);
                }
                return framed || expired;
            }
            SocketPoll::Done { arrival, timers } => {
                if caller == StepCaller::Application {
                    self.activity.found(framed || arrival.is_some());
                }
                (arrival, timers && self.run_timers(arrival, &mut scratch.path))
            }
        };
        self.schedule.take_backlog(&mut scratch.path.ready);
        self.send_ready(&mut scratch.path);
        self.settle(&mut scratch.path);
        framed || arrival.is_some() || expired
    }

    /// The part of a step for peers on this host: frames that wait to be sent, and frames that have come.
    #[inline]
    fn step_frames(&self, acks: AckTiming, scratch: &mut ThreadScratch) -> bool {
        if self.shm.is_none() {
            return false;
        }
        self.serve_waiting_frames(&mut scratch.path);
        let framed = self.receive_frames(acks, scratch);
        self.send_ready_frames(&mut scratch.path);
        if framed {
            self.settle(&mut scratch.path);
        }
        framed
    }

    #[inline]
    fn receive_frames(&self, acks: AckTiming, scratch: &mut ThreadScratch) -> bool {
        let Some(path) = &self.shm else { return false };
        let ThreadScratch { lanes, path: scratch, .. } = scratch;
        let sink = &mut EngineSink { engine: self, scratch, acks };
        let framed = FrameReceive { path, services: &self.services, schedule: &self.schedule, sink }.receive(lanes);
        scratch.notices.changed_memory |= framed;
        framed
    }

    #[inline]
    fn send_ready_frames(&self, scratch: &mut PathScratch) {
        if !scratch.ready.is_empty() {
            self.send_ready(scratch);
        }
    }

    /// The time at which something is to be done though nothing arrives.
    pub(crate) fn earliest_deadline(&self) -> Time {
        self.schedule.earliest().min(self.services.faults.earliest())
    }

    /// Runs the timers that are due. `now` is the time if it was just read. Whether any was due.
    #[inline]
    fn run_timers(&self, now: Option<Time>, scratch: &mut PathScratch) -> bool {
        let deadline = self.earliest_deadline();
        if deadline == Time::NEVER || now.is_some_and(|now| now < deadline) {
            return false;
        }
        self.run_due_timers(now.unwrap_or_else(clock::now), scratch)
    }

    fn run_due_timers(&self, now: Time, scratch: &mut PathScratch) -> bool {
        let faults = &self.services.faults;
        let mut expired = faults.earliest() <= now && self.wire.release_held(&self.services);
        let timers = &self.schedule.timers;
        for _ in 0..MAX_TIMERS {
            if timers.earliest() > now {
                break;
            }
            let Some((at, qpn)) = timers.pop_due(now) else { break };
            if let Some(entry) = self.services.slots.qp(qpn) {
                expired |= self.expire(&entry, at, now, scratch);
            }
        }
        expired
    }

    /// Handles an entry of the timers: the queue pair tells whether its deadline has really come.
    fn expire(&self, entry: &Arc<QpEntry>, at: Time, now: Time, scratch: &mut PathScratch) -> bool {
        let mut cell = entry.lock();
        if cell.timer_at != at {
            return false; // Since then it was entered with an earlier deadline.
        }
        cell.timer_at = Time::NEVER;
        let Some(live) = cell.live.as_mut() else { return false };
        let expired = live.qp.next_timeout().is_some_and(|deadline| deadline <= now);
        if expired {
            let (qp, mut host) = live.hosted(&self.services, entry, &mut scratch.notices);
            qp.handle_timeout(now, &mut host);
            self.look_after(entry, &mut cell, scratch, AckTiming::Now);
        } else {
            self.schedule.set_timer(entry, &mut cell);
        }
        expired
    }
}

//! Driving the engine: one step of everything that is to be done.

use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use transport::Time;

use crate::clock;
use crate::engine::look::{Drive, Look};
use crate::engine::scratch::Scratch;
use crate::engine::{Engine, rest};
use crate::path::dispatch::Turn;
use crate::path::pump::Acks;
use crate::qp::entry::QpEntry;
use crate::qp::host::Host;

/// Timers served in one step at most.
const MAX_TIMERS: usize = 256;

/// Who drives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Driver {
    Application,
    /// The background thread, while the application is away.
    Background,
    /// The background thread for once, for an application that will be back: acknowledges wait for it, so
    /// that they leave with its answer. The peer's program, which waits for both, then polls until both are there.
    StandIn,
}

impl Engine {
    /// One step, on the application's call. Returns whether anything had arrived.
    #[inline]
    pub(crate) fn progress(&self) -> bool {
        Scratch::with(|scratch| {
            let turn = self.shm_turn(scratch);
            self.take_turn(turn, scratch)
        })
    }

    /// One step for a poll of a completion queue that has `wanted` completions. On a busy machine it may take until
    /// something arrives, for a few milliseconds at most.
    #[inline]
    pub(crate) fn progress_for(&self, wanted: &AtomicU32) {
        Scratch::with(|scratch| {
            if scratch.rest.rests() && self.rest(wanted, scratch) {
                return;
            }
            let turn = self.shm_turn(scratch);
            let weight = if turn == Turn::Nothing { rest::LOOK } else { rest::POLL };
            if self.take_turn(turn, scratch) {
                scratch.rest.found();
            } else if scratch.rest.is_due(weight) {
                self.ask_whether_busy(scratch);
            }
        });
    }

    #[inline]
    fn take_turn(&self, turn: Turn, scratch: &mut Scratch) -> bool {
        match turn {
            Turn::Nothing => false,
            Turn::Frames => self.step_frames(scratch),
            Turn::Acks => {
                self.do_later(scratch);
                self.settle(scratch);
                false
            }
            Turn::Everything => self.step(Driver::Application, scratch),
        }
    }

    /// One step, unless somebody else is at it.
    pub(crate) fn step(&self, driver: Driver, scratch: &mut Scratch) -> bool {
        let acks = match driver {
            Driver::Application => self.acks_of_application(),
            Driver::Background => Acks::Now,
            Driver::StandIn => Acks::Later,
        };
        let framed = self.shm.is_some() && self.step_shm(acks, scratch);
        if framed && driver != Driver::Application {
            self.count_frames(scratch);
        }
        let pace = if driver == Driver::Application { self.pace(scratch) } else { None };
        let (arrival, expired) = match self.look(&mut Drive { driver, acks, framed, pace, noted: false }, scratch) {
            Look::Busy => return framed,
            Look::Quiet(now) => {
                self.activity.found(framed);
                let expired = self.run_timers(Some(now), scratch);
                if expired {
                    self.pump_touched(scratch);
                    self.settle(scratch);
                }
                return framed || expired;
            }
            Look::Done { arrival, timers } => {
                if driver == Driver::Application {
                    self.activity.found(framed || arrival.is_some());
                }
                (arrival, timers && self.run_timers(arrival, scratch))
            }
        };
        self.take_backlog(scratch);
        self.pump_touched(scratch);
        self.settle(scratch);
        framed || arrival.is_some() || expired
    }

    /// Takes what has come on the lanes, and nothing else.
    #[inline]
    fn step_frames(&self, scratch: &mut Scratch) -> bool {
        let framed = self.receive_frames(self.acks_of_application(), scratch);
        if !scratch.touched.is_empty() {
            self.pump_touched(scratch);
        }
        self.settle(scratch);
        framed
    }

    /// What there is to do for peers on this host: what was put off, and what has come on the lanes.
    #[inline]
    fn step_shm(&self, acks: Acks, scratch: &mut Scratch) -> bool {
        self.do_later(scratch);
        let framed = self.receive_frames(acks, scratch);
        if !scratch.touched.is_empty() {
            self.pump_touched(scratch);
        }
        if framed {
            self.settle(scratch);
        }
        framed
    }

    /// When something wants to be done without anything arriving.
    pub(crate) fn earliest_deadline(&self) -> Time {
        self.timers.earliest().min(self.faults.earliest())
    }

    /// `now` is the time if it was just read.
    #[inline]
    fn run_timers(&self, now: Option<Time>, scratch: &mut Scratch) -> bool {
        let deadline = self.earliest_deadline();
        if deadline == Time::NEVER || now.is_some_and(|now| now < deadline) {
            return false;
        }
        self.run_due_timers(now.unwrap_or_else(clock::now), scratch)
    }

    fn run_due_timers(&self, now: Time, scratch: &mut Scratch) -> bool {
        let mut expired = self.faults.earliest() <= now && self.release_held();
        for _ in 0..MAX_TIMERS {
            if self.timers.earliest() > now {
                break;
            }
            let Some((at, qpn)) = self.timers.pop_due(now) else { break };
            if let Some(entry) = self.slots.qp(qpn) {
                expired |= self.expire(&entry, at, now, scratch);
            }
        }
        expired
    }

    /// An entry of the timers came up: asks the queue pair whether it means it.
    fn expire(&self, entry: &Arc<QpEntry>, at: Time, now: Time, scratch: &mut Scratch) -> bool {
        let mut cell = entry.lock();
        if cell.timer_at != at {
            return false; // entered again since, with an earlier deadline
        }
        cell.timer_at = Time::NEVER;
        let Some(live) = cell.live.as_mut() else { return false };
        let expired = live.qp.next_timeout().is_some_and(|deadline| deadline <= now);
        if expired {
            let host = &mut Host {
                engine: self,
                entry,
                parents: &live.parents,
                shm: live.shm.as_ref(),
                outcome: &mut scratch.outcome,
            };
            live.qp.handle_timeout(now, host);
            self.note_work(entry, &mut cell, scratch, Acks::Now);
        } else {
            self.rearm(entry, &mut cell);
        }
        expired
    }
}

//! The sockets that a step polls.
//!
//! With several slots a step of the application polls one socket, so that it costs one system call. A thread stays with
//! a socket on which packets arrive, so several threads that poll receive from different sockets at the same time.

use transport::Time;

use crate::engine::Engine;
use crate::engine::caller::StepCaller;
use crate::engine::pump::{AckTiming, EngineSink};
use crate::engine::scratch::ThreadScratch;
use crate::path::shm_poll::PollPace;
use crate::qp::slots::PortSlot;

/// The number of the application's empty polls after which the timers run at the latest.
const STEPS_PER_TIMERS: u32 = 8;

/// A step under way.
pub(crate) struct StepState {
    pub(crate) caller: StepCaller,
    pub(crate) acks: AckTiming,
    /// Whether frames have come from peers on this host.
    pub(crate) framed: bool,
    /// The application's polling, if it has such peers.
    pub(crate) pace: Option<PollPace>,
    /// Whether this step is counted as a poll of the application.
    pub(crate) counted: bool,
}

/// The result of polling sockets.
pub(crate) enum SocketPoll {
    /// Other threads receive from them.
    Busy,
    /// They were quiet a moment ago and are not polled now.
    Quiet(Time),
    Done {
        /// The time of the arrival of packets, if there were any.
        arrival: Option<Time>,
        /// Whether the timers should run.
        timers: bool,
    },
}

impl SocketPoll {
    /// The result of both polls together.
    fn and(self, other: SocketPoll) -> SocketPoll {
        match (self, other) {
            (SocketPoll::Busy, other) | (other, SocketPoll::Busy) => other,
            (SocketPoll::Quiet(_), other) | (other, SocketPoll::Quiet(_)) => other,
            (SocketPoll::Done { arrival: a, timers: s }, SocketPoll::Done { arrival: b, timers: t }) => {
                SocketPoll::Done { arrival: a.or(b), timers: s || t }
            }
        }
    }
}

impl Engine {
    /// Polls one socket, or all of them on behalf of the background thread.
    #[inline]
    pub(crate) fn poll_sockets(&self, step: &mut StepState, scratch: &mut ThreadScratch) -> SocketPoll {
        let slots = &self.services.slots;
        if slots.len() == 1 {
            return self.poll_socket(slots.first(), step, scratch);
        }
        if step.caller == StepCaller::Application {
            return self.poll_in_turn(step, scratch);
        }
        slots.all().fold(SocketPoll::Busy, |all, slot| all.and(self.poll_socket(slot, step, scratch)))
    }

    /// Polls the first socket that is worth it, starting with the one whose turn it is.
    fn poll_in_turn(&self, step: &mut StepState, scratch: &mut ThreadScratch) -> SocketPoll {
        let slots = &self.services.slots;
        let mut all = SocketPoll::Busy;
        for _ in 0..slots.len() {
            let poll = self.poll_socket(slots.at(scratch.sockets.position), step, scratch);
            match poll {
                SocketPoll::Done { arrival: Some(_), .. } => scratch.sockets.stay(),
                _ => scratch.sockets.advance(),
            }
            all = all.and(poll);
            if matches!(all, SocketPoll::Done { .. }) {
                break;
            }
        }
        all
    }

    #[inline]
    fn poll_socket(&self, slot: &PortSlot, step: &mut StepState, scratch: &mut ThreadScratch) -> SocketPoll {
        let Some(mut receiver) = slot.receiver.try_lock() else { return SocketPoll::Busy };
        let StepState { caller, acks, framed, pace, .. } = *step;
        if caller == StepCaller::Application && !step.counted {
            step.counted = true;
            self.activity.polled(pace.map_or(1, |pace| u64::from(pace.polls)));
            self.schedule.background.note_activity(&self.activity);
        }
        if let Some(pace) = pace
            && receiver.side.may_wait(framed, pace.now)
        {
            return SocketPoll::Quiet(pace.now);
        }
        self.send_deferred(&mut scratch.path);
        let sink = &mut EngineSink { engine: self, scratch: &mut scratch.path, acks };
        let arrival = self.wire.receive(&self.services, slot, &mut receiver, sink);
        let side = &mut receiver.side;
        side.note_poll(arrival.is_some(), pace.map_or(Time(0), |pace| pace.now));
        // Reading the clock takes a good part of an empty poll.
        side.since_timers += 1;
        let arrived = framed || arrival.is_some();
        let timers = arrived || caller != StepCaller::Application || side.since_timers >= STEPS_PER_TIMERS;
        if timers {
            side.since_timers = 0;
        }
        SocketPoll::Done { arrival, timers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_that_was_done_counts_for_all() {
        use SocketPoll::{Busy, Done, Quiet};
        let done = |arrival| Done { arrival, timers: false };
        assert!(matches!(Busy.and(Busy), Busy));
        assert!(matches!(Busy.and(Quiet(Time(1))), Quiet(_)));
        assert!(matches!(Quiet(Time(1)).and(done(None)), Done { arrival: None, .. }));
        assert!(matches!(done(Some(Time(3))).and(done(None)), Done { arrival: Some(Time(3)), timers: false }));
    }
}

//! Which socket is looked at in a step.
//!
//! With several slots an application's step looks at one socket, so that a poll costs one system call. A thread stays
//! with a socket on which packets arrive; so several threads that poll receive from different ones at the same time.

use transport::Time;

use crate::engine::Engine;
use crate::engine::progress::Driver;
use crate::engine::scratch::Scratch;
use crate::path::dispatch::Pace;
use crate::path::pump::Acks;
use crate::qp::slots::Slot;

/// Empty polls of the application between two looks at the timers.
const STEPS_PER_LOOK: u32 = 8;
/// Steps in which a thread stays with a socket at most before it looks at the next one.
const MAX_STAY: u32 = 16;

/// A step under way.
pub(crate) struct Drive {
    pub(crate) driver: Driver,
    /// What becomes of acknowledges.
    pub(crate) acks: Acks,
    /// Whether frames have come from peers on this host.
    pub(crate) framed: bool,
    /// How the application polls, if it has such peers.
    pub(crate) pace: Option<Pace>,
    /// Whether it is noted that the application polls.
    pub(crate) noted: bool,
}

/// What a look came to.
pub(crate) enum Look {
    /// Others look.
    Busy,
    /// It was quiet a moment ago; not looked at now.
    Quiet(Time),
    Done {
        /// When something was received.
        arrival: Option<Time>,
        /// Whether the timers should be looked at.
        timers: bool,
    },
}

/// Whose turn it is in one thread.
#[derive(Debug, Default)]
pub(crate) struct Place {
    place: usize,
    stayed: u32,
}

impl Place {
    fn go_on(&mut self) {
        (self.place, self.stayed) = (self.place.wrapping_add(1), 0);
    }

    /// Something was received where it is.
    fn stay(&mut self) {
        self.stayed += 1;
        if self.stayed >= MAX_STAY {
            self.go_on();
        }
    }
}

impl Look {
    /// Both together.
    fn and(self, other: Look) -> Look {
        match (self, other) {
            (Look::Busy, other) | (other, Look::Busy) => other,
            (Look::Quiet(_), other) | (other, Look::Quiet(_)) => other,
            (Look::Done { arrival: a, timers: s }, Look::Done { arrival: b, timers: t }) => {
                Look::Done { arrival: a.or(b), timers: s || t }
            }
        }
    }
}

impl Engine {
    /// Looks at a socket, or at all of them on behalf of the background thread.
    #[inline]
    pub(crate) fn look(&self, drive: &mut Drive, scratch: &mut Scratch) -> Look {
        if self.slots.len() == 1 {
            return self.look_at(self.slots.first(), drive, scratch);
        }
        if drive.driver == Driver::Application {
            return self.look_in_turn(drive, scratch);
        }
        self.slots.all().fold(Look::Busy, |look, slot| look.and(self.look_at(slot, drive, scratch)))
    }

    /// Looks at the first socket, from the one whose turn it is on, that is worth a look.
    fn look_in_turn(&self, drive: &mut Drive, scratch: &mut Scratch) -> Look {
        let mut all = Look::Busy;
        for _ in 0..self.slots.len() {
            let look = self.look_at(self.slots.at(scratch.place.place), drive, scratch);
            match look {
                Look::Done { arrival: Some(_), .. } => scratch.place.stay(),
                _ => scratch.place.go_on(),
            }
            all = all.and(look);
            if matches!(all, Look::Done { .. }) {
                break;
            }
        }
        all
    }

    #[inline]
    fn look_at(&self, slot: &Slot, drive: &mut Drive, scratch: &mut Scratch) -> Look {
        let Some(mut rx) = slot.rx.try_lock() else { return Look::Busy };
        let Drive { driver, acks, framed, pace, .. } = *drive;
        if driver == Driver::Application && !drive.noted {
            drive.noted = true;
            self.activity.polled(pace.map_or(1, |pace| u64::from(pace.polls)));
            self.background.note_activity(&self.activity);
        }
        if let Some(pace) = pace
            && rx.may_wait(framed, pace.now)
        {
            return Look::Quiet(pace.now);
        }
        self.send_put_off(scratch);
        let arrival = self.receive(slot, &mut rx, acks, scratch);
        rx.note(arrival.is_some(), pace.map_or(Time(0), |pace| pace.now));
        // Reading the clock takes a good part of an empty poll.
        rx.since_timers += 1;
        let arrived = framed || arrival.is_some();
        let timers = arrived || driver != Driver::Application || rx.since_timers >= STEPS_PER_LOOK;
        if timers {
            rx.since_timers = 0;
        }
        Look::Done { arrival, timers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_packets_arrive_and_not_for_ever() {
        let mut place = Place::default();
        (1..MAX_STAY).for_each(|_| place.stay());
        assert_eq!(place.place, 0);
        place.stay();
        assert_eq!(place.place, 1);
        place.stay();
        place.go_on();
        assert_eq!((place.place, place.stayed), (2, 0));
    }

    #[test]
    fn who_looked_counts_for_all() {
        let done = |arrival| Look::Done { arrival, timers: false };
        assert!(matches!(Look::Busy.and(Look::Busy), Look::Busy));
        assert!(matches!(Look::Busy.and(Look::Quiet(Time(1))), Look::Quiet(_)));
        assert!(matches!(Look::Quiet(Time(1)).and(done(None)), Look::Done { arrival: None, .. }));
        assert!(matches!(done(Some(Time(3))).and(done(None)), Look::Done { arrival: Some(Time(3)), timers: false }));
    }
}

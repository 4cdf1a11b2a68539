//! One queue pair's part of a destination.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

use transport::Time;

use super::silence::{Finding, Silence};
use super::{Destination, TURN_BYTES, TurnWaiter};

/// A queue pair's part of a destination. Dropping it gives everything back.
pub(crate) struct DestinationShare<T: TurnWaiter> {
    destination: Arc<Destination<T>>,
    /// Its bytes in flight that the destination has counted.
    charged: u64,
    /// The queue pair, once it has joined the queue and until it uses its turn.
    waiter: Option<T>,
    resent: u64,
    silence: Silence,
}

impl<T: TurnWaiter> DestinationShare<T> {
    pub(super) fn new(destination: Arc<Destination<T>>) -> DestinationShare<T> {
        destination.members.fetch_add(1, Relaxed);
        DestinationShare { destination, charged: 0, waiter: None, resent: 0, silence: Silence::default() }
    }

    pub(crate) fn destination(&self) -> &Arc<Destination<T>> {
        &self.destination
    }

    /// The number of new bytes that may be sent now. It uses up the turn if there is one.
    #[inline]
    pub(crate) fn allowance(&mut self) -> u64 {
        if let Some(waiter) = &self.waiter {
            return if waiter.is_queued() { 0 } else { self.take_turn() };
        }
        let destination = &*self.destination;
        if !destination.is_crowded() {
            return u64::MAX;
        }
        if self.silence.has_lapsed() || destination.is_waited_for() {
            return 0;
        }
        let budget = destination.budget.load(Relaxed);
        budget.saturating_sub(destination.in_flight.load(SeqCst))
    }

    #[cold]
    fn take_turn(&mut self) -> u64 {
        self.waiter = None;
        self.destination.in_flight.fetch_sub(TURN_BYTES, SeqCst);
        TURN_BYTES
    }

    /// Joins the queue, unless it is in it. Afterwards the caller must [`grant`](Destination::grant):
    /// there may be room by now.
    pub(crate) fn wait(&mut self, who: &T) {
        if self.waiter.is_none() {
            who.becomes_queued();
            self.waiter = Some(who.clone());
            self.destination.queue.push(who.clone());
        }
    }

    /// Leaves the queue, or gives an unused turn back.
    fn leave_queue(&mut self) {
        if let Some(waiter) = self.waiter.take()
            && !self.destination.forget(&waiter)
        {
            self.destination.in_flight.fetch_sub(TURN_BYTES, SeqCst);
        }
    }

    /// Whether it waits for its turn.
    pub(crate) fn waits(&self) -> bool {
        self.waiter.is_some()
    }

    /// Updates its bytes in flight. While the destination is not crowded nothing is counted.
    #[inline]
    pub(crate) fn charge(&mut self, in_flight: impl FnOnce() -> u64) {
        let counts = self.destination.is_crowded() && !self.silence.has_lapsed();
        if counts || self.charged > 0 {
            self.charge_to(if counts { in_flight() } else { 0 });
        }
    }

    /// Updates the number of unanswered probes.
    #[inline]
    pub(crate) fn note_unanswered(&mut self, probes: u32, now: Time) {
        if !self.silence.knows(probes) {
            self.look_at_silence(probes, now);
        }
    }

    #[cold]
    fn look_at_silence(&mut self, probes: u32, now: Time) {
        if probes == 0 {
            self.silence = Silence::default();
            return;
        }
        match self.silence.look(probes, self.destination.answers.load(Relaxed)) {
            Finding::TooEarly | Finding::Silent => self.destination.overdraw(now),
            Finding::Lapsed => self.leave_queue(),
        }
    }

    /// Whether its peer has left probes unanswered at the last update.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.is_silent()
    }

    /// Whether its peer is silent while others are answered. Then it sends nothing new, and need not wait for a turn.
    #[inline]
    pub(crate) fn has_lapsed(&self) -> bool {
        self.silence.has_lapsed()
    }

    /// Notes that the peer has answered.
    pub(crate) fn heard(&mut self) {
        self.silence = Silence::default();
    }

    fn charge_to(&mut self, now: u64) {
        let before = std::mem::replace(&mut self.charged, now);
        let destination = &*self.destination;
        if now > before {
            destination.in_flight.fetch_add(now - before, SeqCst);
        } else if now < before {
            destination.in_flight.fetch_sub(before - now, SeqCst);
            if !self.silence.is_silent() {
                destination.answered(before - now);
            }
        }
    }

    /// Updates the number of packets that were sent again.
    #[inline]
    pub(crate) fn note_resent(&mut self, resent: u64, now: Time) {
        if resent > self.resent {
            self.resent = resent;
            if !self.silence.has_lapsed() {
                self.destination.shrink(now);
            }
        }
    }
}

impl<T: TurnWaiter> Drop for DestinationShare<T> {
    fn drop(&mut self) {
        self.charge_to(0);
        self.leave_queue();
        self.destination.members.fetch_sub(1, Relaxed);
    }
}

impl<T: TurnWaiter> fmt::Debug for DestinationShare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DestinationShare")
            .field("charged", &self.charged)
            .field("waits", &self.waits())
            .finish_non_exhaustive()
    }
}

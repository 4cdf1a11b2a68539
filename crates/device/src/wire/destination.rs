//! The bytes that the queue pairs of this process have in flight to one destination, together.
//!
//! All packets to one slot of a process go through one socket buffer. The window of a queue pair
//! bounds its own bytes in flight. Thousands of queue pairs that start together would still overflow the
//! buffer of their peer. So the queue pairs that send to one slot of one
//! address share a budget. While they are few they cannot exceed it, and nothing is
//! counted. When it is used up they wait in a queue. Each that has its turn may
//! send a [`TURN_BYTES`] of new packets.
//!
//! ```text
//!   fill ── room left? ──► sends ── charged ──► ACKed ───────── room again ─┐
//!     └─ none: waits at the end of the queue ──► its turn ──► backlog ◄─────┘
//! ```
//!
//! The budget starts with a quarter of our own receive buffer, since peers have equal buffers.
//! It shrinks when packets must be sent again, and grows back with their ACKs.
//!
//! A queue pair whose peer is silent while others are answered loses its share ([`silence`]): its bytes in flight count
//! no more, and it sends nothing new until its peer answers. Until then, each of its probes lets one queue pair
//! have a turn in spite of the budget. So the shares of dead peers never block queue pairs with living ones.

mod silence;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use transport::{Time, Tuning};
use wire::{Gid, Qpn};

use silence::{Finding, Silence};

/// The bytes that a queue pair may send in its turn: payload, and 128 bytes for each packet.
const TURN_BYTES: u64 = 64 << 10;
/// Losses do not shrink a budget below this.
const LEAST_BYTES: u64 = 4 * TURN_BYTES;
/// Losses within this time of each other count as one.
const LOSS_INTERVAL: Duration = Duration::from_millis(10);
/// The growth of the budget for each ACKed budget of bytes.
const GROWTH_BYTES: u64 = TURN_BYTES;
/// The time between turns that are given in spite of the budget.
const OVERDRAFT_INTERVAL: Duration = Duration::from_millis(10);

/// The window of one queue pair at most, however large receive buffers are.
const WINDOW_BYTES: u64 = 1 << 20;

/// One slot of one address, to which queue pairs send. `T` stands for a waiting queue pair.
pub(crate) struct Destination<T> {
    /// The budget at most.
    most: u64,
    /// The window of one queue pair at most.
    window: u64,
    budget: AtomicU64,
    in_flight: AtomicU64,
    members: AtomicU32,
    /// The length of the queue, so that an empty queue shows without its lock.
    waiting: AtomicU32,
    queue: Mutex<VecDeque<(TurnTicket, T)>>,
    lost_at: AtomicU64,
    /// It changes with each answer that has made room.
    answers: AtomicU64,
    /// The next turn is given in spite of the budget.
    overdraft: AtomicBool,
    overdrawn_at: AtomicU64,
}

/// True while its owner is in the queue; false when its turn has come.
type TurnTicket = Arc<AtomicBool>;

/// A queue pair's part of a destination. Dropping it gives everything back.
pub(crate) struct DestinationShare<T> {
    destination: Arc<Destination<T>>,
    /// Its bytes in flight that the destination has counted.
    charged: u64,
    /// It exists from the first wait on.
    ticket: Option<TurnTicket>,
    /// It has joined the queue, and has not used its turn yet.
    waits: bool,
    resent: u64,
    silence: Silence,
}

/// All destinations of queue pairs.
pub(crate) struct Destinations<T> {
    budget: u64,
    window: u64,
    places: Mutex<Places<T>>,
}

/// By address and slot.
type Places<T> = HashMap<(Gid, u8), Weak<Destination<T>>>;

impl<T> Destinations<T> {
    /// `receive_buffer_bytes` is the size that the kernel grants our own socket.
    pub(crate) fn new(receive_buffer_bytes: usize) -> Destinations<T> {
        let least = u64::from(Tuning::default().window_max_bytes);
        let (budget, window) = (receive_buffer_bytes as u64 / 4, receive_buffer_bytes as u64 / 8);
        Destinations { budget: budget.max(least), window: window.clamp(least, WINDOW_BYTES), places: Mutex::default() }
    }

    /// The behaviour of new queue pairs. The larger the receive buffers are, the more one may have in flight. A side that falls
    /// behind for a moment then has enough work to catch up, and the other side need not wait.
    pub(crate) fn tuning(&self) -> Tuning {
        Tuning { window_max_bytes: self.window as u32, ..Tuning::default() }
    }

    /// A share of the destination with a peer's number and address.
    pub(crate) fn join(&self, address: Gid, peer: Qpn) -> DestinationShare<T> {
        let mut places = self.places.lock();
        let place = (address, peer.slot());
        let known = places.get(&place).and_then(Weak::upgrade);
        let destination = known.unwrap_or_else(|| {
            places.retain(|_, old| old.strong_count() > 0);
            let new = Arc::new(Destination::new(self.budget, self.window));
            places.insert(place, Arc::downgrade(&new));
            new
        });
        DestinationShare::new(destination)
    }
}

impl<T> Destination<T> {
    fn new(budget: u64, window: u64) -> Destination<T> {
        Destination {
            most: budget,
            window,
            budget: AtomicU64::new(budget),
            in_flight: AtomicU64::new(0),
            members: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            queue: Mutex::default(),
            lost_at: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            overdraft: AtomicBool::new(false),
            overdrawn_at: AtomicU64::new(0),
        }
    }

    /// Whether its queue pairs together could exceed the budget.
    #[inline]
    fn is_crowded(&self) -> bool {
        u64::from(self.members.load(Relaxed)) * self.window > self.most
    }

    /// Whether a queue pair waits.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(SeqCst) > 0
    }

    /// Hands the queue pairs whose turn has come to `each`, as far as there is room. With nothing in
    /// flight there always is room, and once after an overdraft.
    pub(crate) fn grant(&self, mut each: impl FnMut(T)) {
        let mut queue = self.queue.lock();
        let mut overdraft = self.overdraft.swap(false, SeqCst);
        loop {
            let in_flight = self.in_flight.load(SeqCst);
            let is_full = in_flight > 0 && in_flight + TURN_BYTES > self.budget.load(Relaxed);
            if is_full && !std::mem::take(&mut overdraft) {
                break;
            }
            let Some((ticket, who)) = queue.pop_front() else { break };
            self.in_flight.fetch_add(TURN_BYTES, SeqCst);
            ticket.store(false, SeqCst);
            each(who);
        }
        self.waiting.store(queue.len() as u32, SeqCst);
    }

    /// Takes a queue pair out of the queue. False if it is not there, since its turn has come.
    fn forget(&self, ticket: &TurnTicket) -> bool {
        let mut queue = self.queue.lock();
        let place = queue.iter().position(|(other, _)| Arc::ptr_eq(ticket, other));
        let found = place.and_then(|place| queue.remove(place)).is_some();
        self.waiting.store(queue.len() as u32, SeqCst);
        found
    }

    /// Lets the next turn be given in spite of the budget, unless one was so a short time ago.
    fn overdraw(&self, now: Time) {
        if now.since(Time(self.overdrawn_at.load(Relaxed))) >= OVERDRAFT_INTERVAL {
            self.overdrawn_at.store(now.0, Relaxed);
            self.overdraft.store(true, SeqCst);
        }
    }

    fn answered(&self, acknowledged: u64) {
        // Readers only compare it, so a lost addition does no harm: the value changes all the same.
        self.answers.store(self.answers.load(Relaxed).wrapping_add(1), Relaxed);
        let budget = self.budget.load(Relaxed);
        if budget < self.most {
            let more = (acknowledged * GROWTH_BYTES / budget).max(1);
            self.budget.store((budget + more).min(self.most), Relaxed);
        }
    }

    fn shrink(&self, now: Time) {
        let last = Time(self.lost_at.load(Relaxed));
        if now.since(last) >= LOSS_INTERVAL {
            self.lost_at.store(now.0, Relaxed);
            let budget = self.budget.load(Relaxed);
            self.budget.store((budget / 4 * 3).max(LEAST_BYTES), Relaxed);
        }
    }
}

impl<T> DestinationShare<T> {
    fn new(destination: Arc<Destination<T>>) -> DestinationShare<T> {
        destination.members.fetch_add(1, Relaxed);
        DestinationShare { destination, charged: 0, ticket: None, waits: false, resent: 0, silence: Silence::default() }
    }

    pub(crate) fn destination(&self) -> &Arc<Destination<T>> {
        &self.destination
    }

    /// The number of new bytes that may be sent now. It uses up the turn if there is one.
    #[inline]
    pub(crate) fn allowance(&mut self) -> u64 {
        if self.waits {
            return self.take_turn();
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
        if self.is_queued() {
            return 0;
        }
        self.waits = false;
        self.destination.in_flight.fetch_sub(TURN_BYTES, SeqCst);
        TURN_BYTES
    }

    fn is_queued(&self) -> bool {
        self.ticket.as_ref().is_some_and(|ticket| ticket.load(SeqCst))
    }

    /// Joins the queue, unless it is in it. Afterwards the caller must [`grant`](Destination::grant):
    /// there may be room by now.
    pub(crate) fn wait(&mut self, who: T) {
        if !std::mem::replace(&mut self.waits, true) {
            let ticket = self.ticket.get_or_insert_default();
            ticket.store(true, SeqCst);
            let mut queue = self.destination.queue.lock();
            queue.push_back((ticket.clone(), who));
            self.destination.waiting.store(queue.len() as u32, SeqCst);
        }
    }

    /// Leaves the queue, or gives an unused turn back.
    fn leave_queue(&mut self) {
        let destination = &*self.destination;
        if std::mem::take(&mut self.waits) && !self.ticket.as_ref().is_some_and(|ticket| destination.forget(ticket)) {
            destination.in_flight.fetch_sub(TURN_BYTES, SeqCst);
        }
    }

    /// Whether it waits for its turn.
    pub(crate) fn waits(&self) -> bool {
        self.waits
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

impl<T> Drop for DestinationShare<T> {
    fn drop(&mut self) {
        self.charge_to(0);
        self.leave_queue();
        self.destination.members.fetch_sub(1, Relaxed);
    }
}

impl<T> fmt::Debug for DestinationShare<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("charged", &self.charged).field("waits", &self.waits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

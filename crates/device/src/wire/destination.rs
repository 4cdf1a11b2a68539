//! What the queue pairs of this process have in flight to one destination, together.
//!
//! All that a process receives goes through one socket buffer. The window of a queue pair
//! bounds what it has in flight alone; thousands that start together would overflow the
//! buffer of their peer all the same. So the queue pairs that send to one slot of one
//! address share a budget. While they are few it cannot be exceeded, and nothing is
//! counted. When it is used up they wait in a queue, and each that comes to its turn may
//! send a [`TURN_BYTES`] of new packets.
//!
//! ```text
//!   fill ── room left? ──► sends ── charged ──► acknowledged ── room again ─┐
//!     └─ none: waits at the end of the queue ──► its turn ──► backlog ◄─────┘
//! ```
//!
//! The budget begins with a quarter of our own receive buffer, since peers are made like us.
//! It shrinks when packets have to be sent again and grows back as they are acknowledged.
//!
//! A queue pair whose peer is silent while others are answered loses its share ([`silence`]): what it has sent counts
//! no more, and it sends nothing new until its peer answers. Until then, each probe of a silent one lets one of those
//! that wait have a turn in spite of the budget. So the shares of dead peers never keep the living out.

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

/// What a queue pair may send when its turn has come: payload, and 128 bytes for each packet.
const TURN_BYTES: u64 = 64 << 10;
/// Losses do not shrink a budget below this.
const LEAST_BYTES: u64 = 4 * TURN_BYTES;
/// Losses within this time of each other count as one.
const LOSS_INTERVAL: Duration = Duration::from_millis(10);
/// What the budget grows by when as much as it is was acknowledged.
const GROWTH_BYTES: u64 = TURN_BYTES;
/// Time between turns that are given in spite of the budget.
const OVERDRAFT_INTERVAL: Duration = Duration::from_millis(10);

/// The window of one queue pair at most, however large receive buffers are.
const WINDOW_BYTES: u64 = 1 << 20;

/// One slot of one address, to which queue pairs send. Those that wait are known as `T`.
pub(crate) struct Destination<T> {
    /// The budget at most.
    most: u64,
    /// The window of one queue pair at most.
    window: u64,
    budget: AtomicU64,
    in_flight: AtomicU64,
    members: AtomicU32,
    /// Length of the queue, to see without its lock that nobody waits.
    waiting: AtomicU32,
    queue: Mutex<VecDeque<(Ticket, T)>>,
    lost_at: AtomicU64,
    /// Changes with each answer that made room.
    answers: AtomicU64,
    /// The next turn is given in spite of the budget.
    overdraft: AtomicBool,
    overdrawn_at: AtomicU64,
}

/// True while its owner is in the queue; false when its turn has come.
type Ticket = Arc<AtomicBool>;

/// A queue pair's part of a destination. Dropping it gives everything back.
pub(crate) struct Share<T> {
    destination: Arc<Destination<T>>,
    /// What it has in flight as far as the destination knows.
    charged: u64,
    /// Present from the first wait on.
    ticket: Option<Ticket>,
    /// It went to the queue, and has not used the turn that came of it.
    waits: bool,
    resent: u64,
    silence: Silence,
}

/// All destinations that queue pairs have.
pub(crate) struct Destinations<T> {
    budget: u64,
    window: u64,
    places: Mutex<Places<T>>,
}

/// By address and slot.
type Places<T> = HashMap<(Gid, u8), Weak<Destination<T>>>;

impl<T> Destinations<T> {
    /// `receive_buffer_bytes` is what the kernel grants our own socket.
    pub(crate) fn new(receive_buffer_bytes: usize) -> Destinations<T> {
        let least = u64::from(Tuning::default().window_max_bytes);
        let (budget, window) = (receive_buffer_bytes as u64 / 4, receive_buffer_bytes as u64 / 8);
        Destinations { budget: budget.max(least), window: window.clamp(least, WINDOW_BYTES), places: Mutex::default() }
    }

    /// How queue pairs behave here. The larger receive buffers are, the more one may have in flight: who falls
    /// behind for a moment then finds work enough to catch up, and the other need not wait.
    pub(crate) fn tuning(&self) -> Tuning {
        Tuning { window_max_bytes: self.window as u32, ..Tuning::default() }
    }

    /// A part of the destination that a peer's number and address stand for.
    pub(crate) fn join(&self, address: Gid, peer: Qpn) -> Share<T> {
        let mut places = self.places.lock();
        let place = (address, peer.slot());
        let known = places.get(&place).and_then(Weak::upgrade);
        let destination = known.unwrap_or_else(|| {
            places.retain(|_, old| old.strong_count() > 0);
            let new = Arc::new(Destination::new(self.budget, self.window));
            places.insert(place, Arc::downgrade(&new));
            new
        });
        Share::new(destination)
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

    /// Whether somebody waits.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting.load(SeqCst) > 0
    }

    /// Hands those whose turn has come to `each`, as far as there is room. With nothing in
    /// flight there always is, and once after an overdraft.
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

    /// Takes somebody out of the queue. False if it is not there: its turn has come.
    fn forget(&self, ticket: &Ticket) -> bool {
        let mut queue = self.queue.lock();
        let place = queue.iter().position(|(other, _)| Arc::ptr_eq(ticket, other));
        let found = place.and_then(|place| queue.remove(place)).is_some();
        self.waiting.store(queue.len() as u32, SeqCst);
        found
    }

    /// Lets the next turn be given in spite of the budget, unless one was so lately.
    fn overdraw(&self, now: Time) {
        if now.since(Time(self.overdrawn_at.load(Relaxed))) >= OVERDRAFT_INTERVAL {
            self.overdrawn_at.store(now.0, Relaxed);
            self.overdraft.store(true, SeqCst);
        }
    }

    fn answered(&self, acknowledged: u64) {
        // Others only look whether it changes: an addition that is lost changes it as well.
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

impl<T> Share<T> {
    fn new(destination: Arc<Destination<T>>) -> Share<T> {
        destination.members.fetch_add(1, Relaxed);
        Share { destination, charged: 0, ticket: None, waits: false, resent: 0, silence: Silence::default() }
    }

    pub(crate) fn destination(&self) -> &Arc<Destination<T>> {
        &self.destination
    }

    /// How much may be sent now that was never sent. Uses the turn up if there is one.
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

    /// Queues up, unless it is queued. Afterwards somebody must [`grant`](Destination::grant):
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

    /// Takes it out of the queue, or gives the turn back that it has not used.
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

    /// Tells what is in flight now. Where all fit anyway nothing is counted.
    #[inline]
    pub(crate) fn charge(&mut self, in_flight: impl FnOnce() -> u64) {
        let counts = self.destination.is_crowded() && !self.silence.has_lapsed();
        if counts || self.charged > 0 {
            self.charge_to(if counts { in_flight() } else { 0 });
        }
    }

    /// Tells how many probes the peer has left unanswered.
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

    /// Whether its peer has left probes unanswered, as far as is known here.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.silence.is_silent()
    }

    /// Whether its peer is silent while others are answered: it shall send nothing new, and need not wait in turn.
    #[inline]
    pub(crate) fn has_lapsed(&self) -> bool {
        self.silence.has_lapsed()
    }

    /// The peer has answered.
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

    /// Tells how many packets were sent again so far.
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

impl<T> Drop for Share<T> {
    fn drop(&mut self) {
        self.charge_to(0);
        self.leave_queue();
        self.destination.members.fetch_sub(1, Relaxed);
    }
}

impl<T> fmt::Debug for Share<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("charged", &self.charged).field("waits", &self.waits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;

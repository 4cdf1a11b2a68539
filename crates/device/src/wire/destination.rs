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

mod share;
mod silence;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use transport::{Time, Tuning};
use wire::{Gid, Qpn};

use crate::wait_list::WaitList;
pub(crate) use share::DestinationShare;

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

/// A queue pair as a destination sees it. A flag of its own tells whether it is in the queue.
pub(crate) trait TurnWaiter: Clone {
    fn becomes_queued(&self);
    fn is_not_queued(&self);
    fn is_queued(&self) -> bool;
    /// Whether both are the same queue pair.
    fn is(&self, other: &Self) -> bool;
}

/// One slot of one address, to which queue pairs send. `T` stands for a waiting queue pair.
pub(crate) struct Destination<T> {
    /// The budget at most.
    most: u64,
    /// The window of one queue pair at most.
    window: u64,
    budget: AtomicU64,
    in_flight: AtomicU64,
    members: AtomicU32,
    queue: WaitList<T>,
    lost_at: AtomicU64,
    /// It changes with each answer that has made room.
    answers: AtomicU64,
    /// The next turn is given in spite of the budget.
    overdraft: AtomicBool,
    overdrawn_at: AtomicU64,
}

/// All destinations of queue pairs.
pub(crate) struct Destinations<T> {
    budget: u64,
    window: u64,
    places: Mutex<Places<T>>,
}

/// By address and slot.
type Places<T> = HashMap<(Gid, u8), Weak<Destination<T>>>;

impl<T: TurnWaiter> Destinations<T> {
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

impl<T: TurnWaiter> Destination<T> {
    fn new(budget: u64, window: u64) -> Destination<T> {
        Destination {
            most: budget,
            window,
            budget: AtomicU64::new(budget),
            in_flight: AtomicU64::new(0),
            members: AtomicU32::new(0),
            queue: WaitList::default(),
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
        !self.queue.is_empty()
    }

    /// Takes the queue pairs whose turn has come out of the queue, as far as there is room. With nothing in flight there
    /// always is room, and once after an overdraft.
    pub(crate) fn grant(&self) -> Vec<T> {
        let mut granted = Vec::new();
        let mut overdraft = self.overdraft.swap(false, SeqCst);
        let give = |who: T| {
            self.in_flight.fetch_add(TURN_BYTES, SeqCst);
            who.is_not_queued();
            granted.push(who);
        };
        self.queue.pop_while(|| self.has_room() || std::mem::take(&mut overdraft), give);
        granted
    }

    /// Whether one more turn fits into the budget.
    fn has_room(&self) -> bool {
        let in_flight = self.in_flight.load(SeqCst);
        in_flight == 0 || in_flight + TURN_BYTES <= self.budget.load(Relaxed)
    }

    /// Takes a queue pair out of the queue. False if it is not there, since its turn has come.
    fn forget(&self, who: &T) -> bool {
        let found = self.queue.remove(|other| other.is(who));
        if found {
            who.is_not_queued();
        }
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
        // Readers only compare it, so a lost addition does no harm: the value still changes.
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

#[cfg(test)]
mod tests;

//! A network whose faults a seed decides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// Random numbers by a seed: Steele et al., "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
pub(super) struct Seeded(pub(super) u64);

impl Seeded {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True so many times in a thousand.
    pub(super) fn hits(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }
}

/// Faults, each so many times in a thousand packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacketFaults {
    pub(super) loss: u64,
    pub(super) doubled: u64,
    /// Packets that others overtake.
    pub(super) late: u64,
    /// Moments at which the device takes no datagram.
    pub(super) busy: u64,
}

/// A packet on its way: its arrival, its number among all, its receiver, itself.
type FlyingPacket = (Instant, u64, Toward, Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Toward {
    Client,
    Server,
}

pub(super) struct LossyNetwork {
    pub(super) random: Seeded,
    pub(super) faults: PacketFaults,
    /// The time of a packet on its way.
    pub(super) delay: Duration,
    flying: BinaryHeap<Reverse<FlyingPacket>>,
    count: u64,
}

impl LossyNetwork {
    pub(super) fn new(seed: u64, faults: PacketFaults) -> LossyNetwork {
        let delay = Duration::from_micros(5);
        LossyNetwork { random: Seeded(seed), faults, delay, flying: BinaryHeap::new(), count: 0 }
    }

    pub(super) fn send(&mut self, toward: Toward, packet: Vec<u8>, now: Instant) {
        if self.random.hits(self.faults.loss) {
            return;
        }
        if self.random.hits(self.faults.doubled) {
            let later = Duration::from_micros(self.random.below(3000));
            self.fly(toward, packet.clone(), now + later);
        }
        let later = if self.random.hits(self.faults.late) { self.random.below(2000) } else { 0 };
        self.fly(toward, packet, now + Duration::from_micros(later));
    }

    fn fly(&mut self, toward: Toward, packet: Vec<u8>, from: Instant) {
        self.count += 1;
        self.flying.push(Reverse((from + self.delay, self.count, toward, packet)));
    }

    /// The moment of the next arrival.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.flying.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next packet that has arrived.
    pub(super) fn arrived(&mut self, now: Instant) -> Option<(Toward, Vec<u8>)> {
        let is_here = self.next_arrival().is_some_and(|at| at <= now);
        let Reverse((_, _, toward, packet)) = is_here.then(|| self.flying.pop()).flatten()?;
        Some((toward, packet))
    }
}

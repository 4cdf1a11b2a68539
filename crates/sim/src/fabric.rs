//! The network between the nodes: latency, faults, partitions.
//!
//! Packets travel as the bytes that a UDP socket would carry, ICRC included. A damaged one
//! is damaged there, and the receiver's checksum has to find it. Each direction
//! between two nodes has its own randomness, so that traffic elsewhere changes nothing.

use core::time::Duration;
use std::collections::BTreeMap;

use faults::{FaultPlan, Injector, Rng, Verdict};
use smallvec::SmallVec;
use transport::Time;
use wire::{Flow, Opcode};

use crate::rng::{Stream, up_to};
use crate::scenario::{Blow, Partition, Scenario, Strike};

/// A datagram in flight.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Flight {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) flow: Flow,
    pub(crate) traffic_class: u8,
    pub(crate) hop_limit: u8,
    /// BTH to ICRC.
    pub(crate) bytes: Vec<u8>,
}

/// The fabric's counts. Every packet sent or duplicated ends in one of the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FabricCounters {
    /// Packets that nodes sent, one for each receiver of a multicast.
    pub sent: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets lost by a verdict.
    pub lost: u64,
    /// Packets lost in a partition.
    pub partitioned: u64,
    /// Packets with a bit flipped; they arrive.
    pub corrupted: u64,
    /// Packets that arrived at their node.
    pub arrived: u64,
}

/// The fate of a packet that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// It arrives.
    Arrive(Flight),
    /// It is released, if it is still held then.
    Release { link: usize, ticket: u64 },
}

#[derive(Debug)]
struct HeldFlight {
    ticket: u64,
    passes_left: u32,
    flight: Flight,
}

/// One direction between two nodes.
#[derive(Debug)]
struct FabricLink {
    rng: Rng,
    injector: Injector,
    last_arrival: Time,
    held: Vec<HeldFlight>,
}

/// All directions.
#[derive(Debug)]
pub(crate) struct Fabric {
    nodes: usize,
    latency: Duration,
    jitter: Duration,
    partitions: Vec<Partition>,
    links: Vec<FabricLink>,
    strikes: Vec<Strike>,
    /// Packets of each opcode so far.
    seen: BTreeMap<u8, u64>,
    tickets: u64,
    counters: FabricCounters,
}

impl Fabric {
    pub(crate) fn new(scenario: &Scenario) -> Fabric {
        let nodes = scenario.nodes;
        Fabric {
            nodes,
            latency: scenario.fabric.latency,
            jitter: scenario.fabric.jitter,
            partitions: scenario.faults.partitions.clone(),
            links: (0..nodes * nodes).map(|link| FabricLink::new(scenario, link / nodes, link % nodes)).collect(),
            strikes: scenario.faults.strikes.clone(),
            seen: BTreeMap::new(),
            tickets: 0,
            counters: FabricCounters::default(),
        }
    }

    pub(crate) fn counters(&self) -> &FabricCounters {
        &self.counters
    }

    /// Sends a packet that is on the wire at `departs`. Tells its verdict and what comes of it, and when.
    pub(crate) fn send(&mut self, departs: Time, mut flight: Flight) -> (Verdict, SmallVec<[(Time, Next); 1]>) {
        self.counters.sent += 1;
        let link = flight.from * self.nodes + flight.to;
        let mut verdict = self.links[link].injector.judge();
        match self.strike(Opcode(flight.bytes[0])) {
            Some(Blow::Lose) => verdict.drop = true,
            Some(Blow::Double) => verdict.duplicate = true,
            None => {}
        }
        if self.is_cut(flight.from, flight.to, departs) {
            self.counters.partitioned += 1;
            return (Verdict { drop: true, ..Verdict::PASS }, SmallVec::new());
        }
        if verdict.drop {
            self.counters.lost += 1;
            return (verdict, SmallVec::new());
        }
        if let Some(corruption) = verdict.corrupt {
            self.counters.corrupted += 1;
            corruption.flip(&mut flight.bytes);
        }
        let mut next = SmallVec::new();
        if verdict.duplicate {
            self.counters.duplicated += 1;
            self.forward(link, departs, &verdict, flight.clone(), &mut next);
        }
        self.forward(link, departs, &verdict, flight, &mut next);
        (verdict, next)
    }

    /// A held packet has waited long enough. `None` if others have passed it already.
    pub(crate) fn release(&mut self, link: usize, ticket: u64) -> Option<Flight> {
        let held = &mut self.links[link].held;
        let at = held.iter().position(|held| held.ticket == ticket)?;
        Some(held.remove(at).flight)
    }

    /// Counts a packet that has arrived at a node.
    pub(crate) fn arrived(&mut self) {
        self.counters.arrived += 1;
    }

    /// Whether no packet is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.links.iter().all(|link| link.held.is_empty())
    }

    fn forward(
        &mut self,
        link: usize,
        departs: Time,
        verdict: &Verdict,
        flight: Flight,
        next: &mut SmallVec<[(Time, Next); 1]>,
    ) {
        let (latency, jitter) = (self.latency, self.jitter);
        let link_number = link;
        let link = &mut self.links[link];
        let mut at = link.arrival(departs + latency, jitter);
        if let Some(delay) = verdict.delay {
            at = at + delay;
        }
        if let Some(hold) = verdict.hold {
            self.tickets += 1;
            let ticket = self.tickets;
            link.held.push(HeldFlight { ticket, passes_left: hold.packets, flight });
            next.push((at + hold.at_most, Next::Release { link: link_number, ticket }));
            return;
        }
        next.push((at, Next::Arrive(flight)));
        next.extend(link.pass().into_iter().map(|flight| (at, Next::Arrive(flight))));
    }

    /// The fate that the scenario chose for this packet.
    fn strike(&mut self, opcode: Opcode) -> Option<Blow> {
        let number = self.seen.entry(opcode.0).or_default();
        *number += 1;
        let which = *number - 1;
        let strike = self.strikes.iter().find(|strike| strike.opcode == opcode && strike.which.contains(&which));
        strike.map(|strike| strike.blow)
    }

    fn is_cut(&self, from: usize, to: usize, now: Time) -> bool {
        self.partitions
            .iter()
            .any(|p| ((p.a, p.b) == (from, to) || (p.b, p.a) == (from, to)) && p.from <= now && now < p.until)
    }
}

impl FabricLink {
    fn new(scenario: &Scenario, from: usize, to: usize) -> FabricLink {
        let seed = Stream::Faults(from, to).seed(scenario.seed);
        FabricLink {
            rng: Stream::Link(from, to).rng(scenario.seed),
            injector: Injector::new(FaultPlan { seed, ..scenario.faults.plan }),
            last_arrival: Time(0),
            held: Vec::new(),
        }
    }

    /// When a packet arrives that is not overtaken.
    fn arrival(&mut self, earliest: Time, jitter: Duration) -> Time {
        let at = earliest + up_to(&mut self.rng, jitter);
        self.last_arrival = self.last_arrival.max(at);
        self.last_arrival
    }

    /// A packet passes those that are held. Some have been passed often enough then.
    fn pass(&mut self) -> Vec<Flight> {
        if self.held.is_empty() {
            return Vec::new();
        }
        for held in &mut self.held {
            held.passes_left -= 1;
        }
        let (free, held) = core::mem::take(&mut self.held).into_iter().partition(|held| held.passes_left == 0);
        self.held = held;
        let free: Vec<HeldFlight> = free;
        free.into_iter().map(|held| held.flight).collect()
    }
}

#[cfg(test)]
mod tests;

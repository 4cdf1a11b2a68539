//! A node: one host with its memory, its receive buffer and its queue pairs' surroundings.
//!
//! It is the simulation's engine, as small as possible: it finds the queue pair of a packet and
//! serves its calls.

use std::collections::{BTreeMap, VecDeque};

use faults::{FaultPlan, Injector};
use memory::Registry;
use transport::{Access, Completion, CqSide, DropReason, Host, PdId, QpEvent, RecvQueue, RecvWr, Time};
use wire::{Gid, Psn, Qpn};

use crate::area::{Area, Slots};
use crate::check::recvs::RecvLedger;
use crate::check::words::{Chain, Counter};
use crate::fabric::Flight;
use crate::rng::Stream;
use crate::scenario::{RX_OVERHEAD_BYTES, Scenario};

/// Words of each kind that all queue pairs share.
pub(crate) const SHARED_WORDS: usize = 3;

/// The number of a node's shared receive queue in XRC requests.
pub(crate) const SRQ_NUMBER: u32 = 0x4_5678;

/// The counts of a node. Every packet that arrived ends in one of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounters {
    /// Packets that arrived.
    pub arrived: u64,
    /// The receive buffer was full.
    pub overflowed: u64,
    /// The node had crashed.
    pub dead: u64,
    /// The ICRC was wrong.
    pub icrc: u64,
    /// No packet by its headers.
    pub malformed: u64,
    /// No such queue pair, or no member of the group.
    pub no_qp: u64,
    /// Copies for further members of a group.
    pub copies: u64,
    /// Queue pairs refused it, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Queue pairs took it.
    pub accepted: u64,
}

impl NodeCounters {
    pub(crate) fn dropped(&mut self, reason: DropReason) {
        *self.dropped.entry(reason.name()).or_default() += 1;
    }

    /// Packets that came and whose fate is known.
    pub(crate) fn accounted(&self) -> u64 {
        let lost = self.overflowed + self.dead + self.icrc + self.malformed + self.no_qp;
        lost + self.dropped.values().sum::<u64>() + self.accepted
    }
}

/// A shared receive queue with its memory and its account.
pub(crate) struct NodeSrq {
    pub(crate) queue: RecvQueue,
    pub(crate) area: Area,
    pub(crate) slots: Slots,
    pub(crate) ledger: RecvLedger,
}

/// Memory that peers may not use as they would like, and words that all share.
pub(crate) struct Commons {
    /// Peers may READ only.
    pub(crate) read_only: Area,
    /// Peers may WRITE only.
    pub(crate) write_only: Area,
    /// Belongs to another protection domain.
    pub(crate) foreign: Area,
    /// `SHARED_WORDS` words for additions, then as many for swaps.
    pub(crate) words: Area,
    pub(crate) counters: Vec<Counter>,
    pub(crate) chains: Vec<Chain>,
}

/// A host.
pub(crate) struct Node {
    pub(crate) gid: Gid,
    pub(crate) registry: Registry,
    pub(crate) pd: PdId,
    pub(crate) srq: Option<NodeSrq>,
    pub(crate) commons: Commons,
    pub(crate) refusals: Injector,
    pub(crate) ends: Vec<usize>,
    pub(crate) counters: NodeCounters,
    pub(crate) crashed: bool,
    /// When what was sent will have left.
    pub(crate) tx_free_at: Time,
    pub(crate) tx_scheduled: bool,
    pub(crate) serving: bool,
    rx: VecDeque<Flight>,
    rx_bytes: usize,
    rx_limit: usize,
}

/// Access of regions that peers may do everything with.
pub(crate) const EVERYTHING: Access = Access::LOCAL_WRITE
    .union(Access::REMOTE_WRITE)
    .union(Access::REMOTE_READ)
    .union(Access::REMOTE_ATOMIC)
    .union(Access::FLUSH_GLOBAL)
    .union(Access::MW_BIND);

impl Node {
    pub(crate) fn new(scenario: &Scenario, number: usize) -> Node {
        let registry = Registry::new(Stream::Keys(number).seed(scenario.seed));
        let pd = registry.alloc_pd();
        let seed = Stream::Refusals(number).seed(scenario.seed);
        Node {
            gid: gid(scenario, number),
            commons: Commons::new(scenario, &registry, pd, number),
            registry,
            pd,
            srq: None,
            refusals: Injector::new(FaultPlan { seed, ..scenario.faults.plan }),
            ends: Vec::new(),
            counters: NodeCounters::default(),
            crashed: false,
            tx_free_at: Time(0),
            tx_scheduled: false,
            serving: false,
            rx: VecDeque::new(),
            rx_bytes: 0,
            rx_limit: scenario.fabric.rx_buffer_bytes,
        }
    }

    /// A datagram has arrived: it enters the receive buffer, if it fits.
    pub(crate) fn arrive(&mut self, flight: Flight) -> bool {
        self.counters.arrived += 1;
        let cost = flight.bytes.len() + RX_OVERHEAD_BYTES;
        if self.crashed {
            self.counters.dead += 1;
            return false;
        }
        if self.rx_bytes + cost > self.rx_limit {
            self.counters.overflowed += 1;
            return false;
        }
        self.rx_bytes += cost;
        self.rx.push_back(flight);
        true
    }

    /// The oldest datagram in the receive buffer.
    pub(crate) fn take_arrived(&mut self) -> Option<Flight> {
        let flight = self.rx.pop_front()?;
        self.rx_bytes -= flight.bytes.len() + RX_OVERHEAD_BYTES;
        Some(flight)
    }

    /// Whether something waits in the receive buffer.
    pub(crate) fn has_arrived(&self) -> bool {
        !self.rx.is_empty()
    }

    /// It stops for good. Packets that wait in its socket are lost.
    pub(crate) fn crash(&mut self) {
        self.crashed = true;
        while self.take_arrived().is_some() {
            self.counters.dead += 1;
        }
    }
}

/// The address of a node.
fn gid(scenario: &Scenario, number: usize) -> Gid {
    let ip: core::net::IpAddr = match scenario.ipv6 {
        true => [0xfd00, 0, 0, 0, 0, 0, 0, number as u16 + 1].into(),
        false => [10, 0, 0, number as u8 + 1].into(),
    };
    ip.into()
}

impl Commons {
    fn new(scenario: &Scenario, registry: &Registry, pd: PdId, number: usize) -> Commons {
        let mut rng = Stream::Memory(1000 + number).rng(scenario.seed);
        let foreign_pd = registry.alloc_pd();
        let mut area = |name, pd, access, len| Area::new(name, registry, pd, access, len, &mut rng);
        let write = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let words = area("shared words", pd, EVERYTHING, 2 * SHARED_WORDS * 8);
        let word = |i: usize| u64::from_ne_bytes(*words.model()[i * 8..].first_chunk().expect("a word"));
        let (counters, chains) = (0..SHARED_WORDS, SHARED_WORDS..2 * SHARED_WORDS);
        Commons {
            read_only: area("read only", pd, Access::REMOTE_READ, 4096),
            write_only: area("write only", pd, write, 4096),
            foreign: area("of another domain", foreign_pd, EVERYTHING, 4096),
            counters: counters.map(|i| Counter::new(word(i))).collect(),
            chains: chains.map(|i| Chain::new(word(i))).collect(),
            words,
        }
    }
}

/// A completion and the packet that brought it, if a packet did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Noted {
    pub(crate) side: CqSide,
    pub(crate) completion: Completion,
    pub(crate) cause: Option<Cause>,
}

/// A packet: who sent it, and its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cause {
    pub(crate) src_qpn: Qpn,
    pub(crate) psn: Psn,
}

/// Completions and events that the application has not read yet.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    pub(crate) completions: VecDeque<Noted>,
    pub(crate) events: VecDeque<QpEvent>,
    /// Work requests that it has taken from the shared receive queue.
    pub(crate) taken: VecDeque<u64>,
}

/// The surroundings of a queue pair during a call.
pub(crate) struct Surroundings<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) pd: PdId,
    pub(crate) srq: Option<&'a mut NodeSrq>,
    pub(crate) refusals: &'a Injector,
    pub(crate) mailbox: &'a mut Mailbox,
    pub(crate) cause: Option<Cause>,
}

impl Host for Surroundings<'_> {
    type Memory = Registry;
    type Path = transport::shm::path::NoShmPath<Registry>;

    fn memory(&self) -> &Registry {
        self.registry
    }

    fn path(&self) -> Option<&Self::Path> {
        None
    }

    fn complete(&mut self, side: CqSide, completion: Completion) {
        self.mailbox.completions.push_back(Noted { side, completion, cause: self.cause });
    }

    fn event(&mut self, event: QpEvent) {
        self.mailbox.events.push_back(event);
    }

    fn take_shared_recv(&mut self) -> Option<RecvWr> {
        let (wr, _) = self.srq.as_mut()?.queue.take()?;
        self.mailbox.taken.push_back(wr.wr_id);
        Some(wr)
    }

    fn xrc_srq(&mut self, srq: u32) -> Option<PdId> {
        (srq == SRQ_NUMBER).then_some(self.pd)
    }

    fn take_xrc_recv(&mut self, _: u32) -> Option<RecvWr> {
        self.take_shared_recv()
    }

    fn complete_xrc(&mut self, _: u32, completion: Completion) {
        self.complete(CqSide::Recv, completion);
    }

    fn inject_receiver_not_ready(&mut self) -> bool {
        self.refusals.refuse_recv()
    }
}

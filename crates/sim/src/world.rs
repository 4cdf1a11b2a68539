//! The world: nodes, the network between them and the clock that moves both.
//!
//! ```text
//!  Wake ─► application: takes completions, posts ─► queue pair
//!  Transmit ─► queue pairs' packets ─► fabric ─► Arrive ─► receive buffer ─► Serve ─► queue pair
//!  Timer ─► queue pair
//! ```
//! A run ends when no event is left. [`finish`](World::run) checks the end state then.

mod finish;
mod packets;

use core::time::Duration;
use std::borrow::Cow;
use std::collections::BTreeMap;

use faults::Rng;
use transport::{AddressVector, AttrMask, Qp, QpAttr, QpState, QpType, Time};
use wire::Gid;

use crate::check::words::{Chain, Counter};
use crate::check::{Outcome, Violation, ensure};
use crate::clock::Clock;
use crate::end::{self, BUSY_NS, End, Step};
use crate::fabric::{Fabric, FabricCounters, Flight, Next};
use crate::node::{Cause, Node, NodeCounters, Surroundings};
use crate::rng::{Stream, up_to};
use crate::scenario::{RecvPolicy, Scenario};
use crate::trace::Trace;

/// Something that happens at a time.
#[derive(Debug)]
enum WorldEvent {
    /// A packet reaches its node.
    Arrive(Flight),
    /// A packet that was held may continue.
    Release { link: usize, ticket: u64 },
    /// A node looks into its receive buffer.
    Serve(usize),
    /// A node's uplink is free again.
    Transmit(usize),
    /// A queue pair's timer.
    Timer(usize),
    /// An application has its turn.
    Wake(usize),
    /// A node stops for good.
    Crash(usize),
}

/// More events than any run may have: something goes round in circles.
const MAX_EVENTS: u64 = 30_000_000;

/// Timers that a queue pair has.
const TIMERS: usize = 3;

/// A run of a scenario.
pub struct World {
    pub(crate) scenario: Scenario,
    pub(crate) nodes: Vec<Node>,
    pub(crate) ends: Vec<End>,
    clock: Clock<WorldEvent>,
    fabric: Fabric,
    trace: Trace,
    rng: Rng,
    transmitted: u64,
    buffer: Vec<u8>,
    seen: Seen,
}

/// Names of things that happened, with how often.
pub type Seen = BTreeMap<Cow<'static, str>, u64>;

/// The outcome of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Hash over everything that happened.
    pub hash: u64,
    /// When the last thing happened.
    pub ended: Time,
    /// Send work requests that succeeded.
    pub sends: u64,
    /// Messages received.
    pub receives: u64,
    /// Queue pairs that died.
    pub failures: usize,
    /// The network's counts.
    pub fabric: FabricCounters,
    /// The nodes' counts.
    pub nodes: Vec<NodeCounters>,
    /// Packets that queue pairs sent again.
    pub retransmitted: u64,
    /// When the last send work request of each end was done.
    pub done_at: Vec<Time>,
    /// Events of the run and their numbers: opcodes taken, reasons of drops, failures, events.
    pub seen: Seen,
}

impl World {
    /// Builds a scenario. With `verbose`, the trace keeps its lines.
    pub fn new(scenario: Scenario, verbose: bool) -> World {
        let mut nodes: Vec<Node> = (0..scenario.nodes).map(|number| Node::new(&scenario, number)).collect();
        let mut ends: Vec<End> = Vec::new();
        for (number, spec) in scenario.ends.iter().enumerate() {
            let node = &mut nodes[spec.node];
            node.ends.push(number);
            ends.push(End::new(&scenario, number, node));
        }
        for (number, node) in nodes.iter_mut().enumerate() {
            node.srq = end::shared_queue(&scenario, number, node);
        }
        let mut world = World {
            fabric: Fabric::new(&scenario),
            rng: Stream::Host.rng(scenario.seed),
            clock: Clock::default(),
            trace: Trace::new(verbose),
            transmitted: 0,
            buffer: vec![0; transport::MAX_PACKET_BYTES],
            seen: Seen::new(),
            scenario,
            nodes,
            ends,
        };
        world.prepare();
        world
    }

    /// Runs until nothing is left to happen, and checks everything.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn run(&mut self) -> Result<Report, Violation> {
        let outcome = self.run_events();
        outcome.map_err(|violation| violation.at(format!("at {} ns", self.clock.now().0)))?;
        self.finish()
    }

    /// The lines of the trace, if they were kept.
    pub fn trace(&self) -> &[String] {
        self.trace.lines()
    }

    fn run_events(&mut self) -> Outcome {
        while let Some(event) = self.clock.advance() {
            ensure!("a run comes to an end", self.clock.scheduled() < MAX_EVENTS, "it goes on and on");
            self.handle(event)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: WorldEvent) -> Outcome {
        match event {
            WorldEvent::Arrive(flight) => self.arrive(flight),
            WorldEvent::Release { link, ticket } => match self.fabric.release(link, ticket) {
                Some(flight) => self.arrive(flight),
                None => Ok(()),
            },
            WorldEvent::Crash(node) => {
                self.trace.note(self.clock.now(), &[1, node as u64], || format!("n{node} crashes"));
                self.nodes[node].crash();
                Ok(())
            }
            WorldEvent::Serve(node) => self.on_node(node, event, |world| world.serve(node)),
            WorldEvent::Transmit(node) => self.on_node(node, event, |world| {
                world.nodes[node].tx_scheduled = false;
                world.transmit(node)
            }),
            WorldEvent::Timer(end) => self.on_node(self.ends[end].spec.node, event, |world| world.fire(end)),
            WorldEvent::Wake(end) => self.on_node(self.ends[end].spec.node, event, |world| world.turn(end)),
        }
    }

    /// Does something on a node, unless it has crashed; later, if it pauses.
    fn on_node(&mut self, node: usize, event: WorldEvent, action: impl FnOnce(&mut World) -> Outcome) -> Outcome {
        let now = self.clock.now();
        let pauses = self.scenario.faults.pauses.iter();
        let pause = pauses.filter(|p| p.node == node && p.from <= now && now < p.until).map(|p| p.until).max();
        match pause {
            _ if self.nodes[node].crashed => Ok(()),
            Some(until) => {
                self.clock.schedule(until, event);
                Ok(())
            }
            None => action(self),
        }
    }

    fn prepare(&mut self) {
        for node in 0..self.nodes.len() {
            if let Some(crash) = self.scenario.faults.crash
                && crash.node == node
            {
                self.clock.schedule(crash.at, WorldEvent::Crash(node));
            }
        }
        for e in 0..self.ends.len() {
            self.prepare_accounts(e);
            self.step(e, end::to_init(self.scenario.service)).expect("a new queue pair takes its attributes");
            let spec = &self.ends[e].spec;
            let delay = if let RecvPolicy::Late(delay) = spec.recv { delay } else { Duration::ZERO };
            self.ends[e].app.recv_at = spec.rtr_at + delay;
            let at = self.ends[e].spec.rtr_at;
            self.wake_at(e, at);
        }
    }

    /// Accounts of what an end does to its peer begin with the peer's memory as it is.
    fn prepare_accounts(&mut self, e: usize) {
        let Some(peer) = self.ends[e].spec.peer else { return };
        self.ends[e].remote = crate::check::remote::Remote::new(self.ends[peer].exposed.model());
        let words = &self.nodes[self.ends[peer].spec.node].commons.words;
        let seen = words.model().chunks_exact(8).map(|word| u64::from_ne_bytes(*word.first_chunk().expect("8")));
        self.ends[e].app.seen = seen.collect();
    }

    /// Moves an end's queue pair to another state.
    pub(crate) fn step(&mut self, e: usize, (attr, mask): Step) -> Outcome {
        let moved = self.with_qp(e, None, |qp, _, host| qp.modify(&attr, mask, host));
        ensure!("a legal modify is taken", moved.is_ok(), "end {e} to {:?}: {moved:?}", attr.state);
        let state = attr.state;
        self.trace.note(self.clock.now(), &[2, e as u64, state as u64], || format!("q{e} is in {state:?}"));
        self.touched(e);
        Ok(())
    }

    /// Calls an end's queue pair with its surroundings.
    pub(crate) fn with_qp<R>(
        &mut self,
        e: usize,
        cause: Option<Cause>,
        call: impl FnOnce(&mut Qp, Time, &mut Surroundings<'_>) -> R,
    ) -> R {
        let end = &mut self.ends[e];
        let node = &mut self.nodes[end.spec.node];
        let mut host = Surroundings {
            registry: &node.registry,
            pd: node.pd,
            srq: node.srq.as_mut().filter(|_| end.spec.shared_recv),
            refusals: &node.refusals,
            mailbox: &mut end.mailbox,
            cause,
        };
        call(&mut end.qp, self.clock.now(), &mut host)
    }

    /// After every call of a queue pair: sets its timer, and wakes its application if needed.
    pub(crate) fn touched(&mut self, e: usize) {
        let now = self.clock.now();
        let end = &mut self.ends[e];
        if let Some(at) = end.qp.next_timeout().filter(|at| *at != Time::NEVER)
            && end.timer.is_none_or(|armed| at < armed)
        {
            end.timer = Some(at.max(now));
            self.clock.schedule(at, WorldEvent::Timer(e));
        }
        let mailbox = &self.ends[e].mailbox;
        let news = !mailbox.completions.is_empty() || !mailbox.events.is_empty();
        let qp = &self.ends[e].qp;
        if news || (qp.ack_due() && !qp.wants_transmit()) {
            let think = up_to(&mut self.rng, self.scenario.fabric.think);
            self.wake_at(e, now + think);
        }
    }

    /// The application of an end gets its turn at `at`, or sooner.
    pub(crate) fn wake_at(&mut self, e: usize, at: Time) {
        let at = at.max(self.clock.now());
        if self.ends[e].wake.is_none_or(|wake| at < wake) {
            self.ends[e].wake = Some(at);
            self.clock.schedule(at, WorldEvent::Wake(e));
        }
    }

    /// The application of an end has more to do soon.
    pub(crate) fn wake_soon(&mut self, e: usize) {
        let busy = Duration::from_nanos(self.rng.range(BUSY_NS));
        let at = self.clock.now() + busy;
        self.wake_at(e, at);
    }

    fn fire(&mut self, e: usize) -> Outcome {
        let now = self.clock.now();
        if self.ends[e].timer.is_none_or(|armed| armed > now) {
            return Ok(());
        }
        self.ends[e].timer = None;
        self.check_patience(e)?;
        // Several may have run out.
        for _ in 0..TIMERS {
            self.with_qp(e, None, |qp, now, host| qp.handle_timeout(now, host));
        }
        let next = self.ends[e].qp.next_timeout();
        ensure!("a timer that has run out is set anew", next.is_none_or(|at| at > now), "end {e}: {next:?}");
        self.touched(e);
        self.transmit(self.ends[e].spec.node)
    }

    fn turn(&mut self, e: usize) -> Outcome {
        let now = self.clock.now();
        if self.ends[e].wake.is_none_or(|wake| wake > now) {
            return Ok(());
        }
        self.ends[e].wake = None;
        self.get_ready(e)?;
        self.application(e).map_err(|violation| violation.at(format!("end {e}")))?;
        self.send_acknowledges(e)?;
        self.transmit(self.ends[e].spec.node)
    }

    /// Init to RTR and RTR to RTS, when their times have come.
    fn get_ready(&mut self, e: usize) -> Outcome {
        let now = self.clock.now();
        let spec = self.ends[e].spec.clone();
        if self.ends[e].qp.state() == QpState::Init && spec.rtr_at <= now {
            let peer = spec.peer.map(|peer| (&self.ends[peer].spec, self.ends[peer].qp.qpn(), self.path(e, peer)));
            let step = end::to_rtr(&self.scenario, self.ends[e].qp.qp_type(), &spec, peer);
            self.step(e, step)?;
            self.wake_at(e, spec.rts_at);
        }
        if self.ends[e].qp.state() == QpState::Rtr && spec.rts_at <= now {
            self.step(e, end::to_rts(self.ends[e].qp.qp_type(), &spec))?;
        }
        Ok(())
    }

    /// The path from an end to another.
    pub(crate) fn path(&self, from: usize, to: usize) -> AddressVector {
        let gid = |e: usize| self.nodes[self.ends[e].spec.node].gid;
        AddressVector::new(gid(from), gid(to))
    }

    /// The multicast group of the scenario.
    pub(crate) fn group(&self) -> Gid {
        let ip: core::net::IpAddr = match self.scenario.ipv6 {
            true => [0xff15, 0, 0, 0, 0, 0, 0, 1].into(),
            false => [239, 1, 2, 3].into(),
        };
        ip.into()
    }

    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(crate) fn saw(&mut self, what: impl Into<Cow<'static, str>>) {
        *self.seen.entry(what.into()).or_default() += 1;
    }

    pub(crate) fn service(&self) -> QpType {
        self.scenario.service
    }

    pub(crate) fn note(&mut self, facts: &[u64], text: impl FnOnce() -> String) {
        self.trace.note(self.clock.now(), facts, text);
    }

    /// The words that all share on the node of `e`'s peer.
    pub(crate) fn shared(&mut self, e: usize) -> Option<(&mut [Counter], &mut [Chain])> {
        let peer = self.ends[e].spec.peer?;
        let commons = &mut self.nodes[self.ends[peer].spec.node].commons;
        Some((&mut commons.counters, &mut commons.chains))
    }

    /// Stops the send queue.
    pub(crate) fn drain(&mut self, e: usize) -> Outcome {
        let attr = QpAttr { state: QpState::Sqd, notify_drained: true, ..QpAttr::default() };
        self.ends[e].app.draining = true;
        self.step(e, (attr, AttrMask::STATE | AttrMask::EN_SQD_ASYNC_NOTIFY))
    }
}

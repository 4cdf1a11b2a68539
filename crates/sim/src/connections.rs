//! Connection managers on the virtual clock: clients and servers that connect, reject, delay, disconnect and
//! crash, over a network that loses, doubles and reorders their messages.
//!
//! ```text
//! cargo run -p longarm-sim -- --connections --seed 12345 --trace
//! ```
//! The rules:
//!
//! - Events of an id come in legal order, and only while its owner has it.
//! - An end hears only what the other end did: no reply, confirmation or release comes from nowhere.
//! - One request is one request at the server, however often it arrives.
//! - A client is told what became of its request in bounded time; if nothing is lost, everybody is reached, and
//!   nothing is sent twice.
//! - Both ends agree: what one has established the other has too, or it refused, or gave up; and when one leaves, the
//!   other is told.
//! - In the end no id is in use and no timer runs.

mod account;
mod app;
mod node;
mod plan;

use std::collections::BTreeMap;
use std::time::Duration;

use cm::{CmEvent, ConnId, ManagerOutput};
use faults::Rng;
use transport::Time;
use wire::mad::{self, Attribute};

pub use plan::Plan;

use crate::check::{Outcome, ensure};
use crate::clock::Clock;
use crate::rng::{Stream, up_to};
use crate::trace::Trace;
use account::Stories;
use node::{ManagerNode, Power, Routed, address, node_of};
use plan::ProcessCrash;

/// The next action of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Action {
    Decide(ConnId),
    Confirm(ConnId),
    Leave(ConnId),
    Release(ConnId),
    Destroy(ConnId),
    /// Data of an attempt arrives at its server.
    Data(u32),
}

#[derive(Debug)]
enum Happening {
    Begin(u32),
    Arrive {
        from: usize,
        to: usize,
        mad: Box<[u8; 256]>,
    },
    Timer(usize),
    Act {
        node: usize,
        life: u16,
        action: Action,
    },
    Crash(usize),
    Restart(usize),
    /// A host speaks for a process that died.
    ClosingMad {
        from: usize,
        to: usize,
        mad: Box<[u8; 256]>,
        left: u32,
    },
    /// The applications of a connection whose other end died notice.
    Notice,
}

/// The events of a run, which show whether it reached everything.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionsReport {
    /// Covers every message and event.
    pub hash: u64,
    /// The count of each event.
    pub seen: BTreeMap<String, u64>,
    /// When the last thing happened.
    pub ended: Duration,
}

/// A run of connection managers.
#[derive(Debug)]
pub struct ConnectionsWorld {
    plan: Plan,
    clock: Clock<Happening>,
    nodes: Vec<ManagerNode>,
    network: Rng,
    stories: Stories,
    trace: Trace,
    seen: BTreeMap<String, u64>,
}

/// Nothing takes longer than that.
const END: Duration = Duration::from_secs(3600);
/// A host repeats a closing message that wants an answer this many times, at this interval.
const CLOSING_REPEATS: u32 = 16;
const FAREWELL_INTERVAL: Duration = Duration::from_secs(2);
/// The time after which applications notice a dead peer without a message.
const NOTICE: Duration = Duration::from_secs(300);

impl ConnectionsWorld {
    /// The world of a plan. A `verbose` one keeps its trace.
    pub fn new(plan: Plan, verbose: bool) -> ConnectionsWorld {
        let nodes = (0..plan.nodes)
            .map(|index| {
                let stream = Stream::Connections(index + 2);
                ManagerNode::new(index, stream.seed(plan.seed), stream.rng(plan.seed))
            })
            .collect();
        let mut clock = Clock::default();
        for (tag, attempt) in plan.attempts.iter().enumerate() {
            clock.schedule(time(attempt.at), Happening::Begin(tag as u32));
        }
        for (number, crash) in plan.crashes.iter().enumerate() {
            clock.schedule(time(crash.at), Happening::Crash(number));
            clock.schedule(time(crash.at + crash.down), Happening::Restart(crash.node));
            clock.schedule(time(crash.at + NOTICE), Happening::Notice);
        }
        if let Some((from, length)) = plan.cut {
            clock.schedule(time(from + length + NOTICE), Happening::Notice);
        }
        ConnectionsWorld {
            network: Stream::Connections(1).rng(plan.seed),
            plan,
            clock,
            nodes,
            stories: Stories::default(),
            trace: Trace::new(verbose),
            seen: BTreeMap::new(),
        }
    }

    /// The lines of a verbose run.
    pub fn trace(&self) -> &[String] {
        self.trace.lines()
    }

    /// Runs until nothing will happen any more.
    ///
    /// # Errors
    /// A broken rule.
    pub fn run(&mut self) -> Outcome<ConnectionsReport> {
        while let Some(happening) = self.clock.advance() {
            ensure!("everything ends", self.now() < END, "at {:?}: {happening:?}", self.now());
            self.step(happening)?;
        }
        self.finish()?;
        Ok(ConnectionsReport { hash: self.trace.hash(), seen: self.seen.clone(), ended: self.now() })
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now().0)
    }

    fn see(&mut self, what: impl Into<String>) {
        *self.seen.entry(what.into()).or_default() += 1;
    }

    fn schedule(&mut self, at: Duration, node: usize, action: Action) {
        let life = self.nodes[node].life;
        self.clock.schedule(time(at), Happening::Act { node, life, action });
    }

    fn step(&mut self, happening: Happening) -> Outcome {
        match happening {
            Happening::Begin(tag) => {
                self.begin(tag)?;
                self.settle(self.plan.attempts[tag as usize].from)
            }
            Happening::Arrive { from, to, mad } => self.arrive(from, to, &mad),
            Happening::Timer(node) => {
                let now = self.now();
                let node_state = &mut self.nodes[node];
                if node_state.armed.is_some_and(|armed| armed <= now) {
                    node_state.armed = None;
                    node_state.manager.expire(now);
                }
                self.settle(node)
            }
            Happening::Act { node, life, action } => {
                // Data reaches the present owner of the number.
                if life == self.nodes[node].life || matches!(action, Action::Data(_)) {
                    self.act(node, action);
                }
                self.settle(node)
            }
            Happening::Crash(number) => {
                self.crash(self.plan.crashes[number]);
                Ok(())
            }
            Happening::Restart(node) => {
                self.nodes[node].state = Power::On;
                Ok(())
            }
            Happening::ClosingMad { from, to, mad, left } => {
                self.send(from, to, &mad);
                if left > 0 {
                    let at = self.now() + FAREWELL_INTERVAL;
                    self.clock.schedule(time(at), Happening::ClosingMad { from, to, mad, left: left - 1 });
                }
                Ok(())
            }
            Happening::Notice => self.notice(),
        }
    }

    fn arrive(&mut self, from: usize, to: usize, mad: &[u8; 256]) -> Outcome {
        let now = self.now();
        match self.nodes[to].receive(now, from, mad) {
            Routed::Taken => {}
            Routed::Refused(answer) => self.send(to, from, &answer),
            Routed::Dropped => self.see("dropped"),
        }
        self.settle(to)
    }

    /// Takes a manager's outputs and sets its timer.
    fn settle(&mut self, node: usize) -> Outcome {
        while let Some(output) = self.nodes[node].manager.poll() {
            match output {
                ManagerOutput::Send { route: way, mad } => {
                    ensure!("messages leave from their node", way.local == address(node), "{way:?}");
                    self.send(node, node_of(way.remote), &mad);
                }
                ManagerOutput::Event { id, event } => {
                    let name = name_of(&event);
                    self.see(name);
                    let facts = [node as u64, u64::from(id.0)];
                    self.trace.note(self.clock.now(), &facts, || format!("node {node}: {:#010x} {name}", id.0));
                    self.on_event(node, id, &event)?;
                }
            }
        }
        self.arm(node);
        Ok(())
    }

    fn arm(&mut self, node: usize) {
        let Some(next) = self.nodes[node].manager.next_timeout() else {
            return;
        };
        if self.nodes[node].armed.is_none_or(|armed| next < armed) {
            self.nodes[node].armed = Some(next);
            self.clock.schedule(time(next), Happening::Timer(node));
        }
    }

    /// The network.
    fn send(&mut self, from: usize, to: usize, mad: &[u8; 256]) {
        let attribute = mad::attribute(mad).unwrap_or(Attribute(0));
        let copies = match self.network.below(100) {
            fate if fate < self.plan.loss_percent => 0,
            fate if fate < self.plan.loss_percent + self.plan.duplicate_percent => 2,
            _ => 1,
        };
        let copies = if self.plan.is_cut(self.now()) { 0 } else { copies };
        let name = name_of_attribute(attribute);
        self.see(name);
        let facts = [from as u64, to as u64, u64::from(attribute.0), copies];
        self.trace.note(self.clock.now(), &facts, || {
            let ids = (u32_at(mad, 24), u32_at(mad, 28));
            format!("{from} -> {to}: {name} {:#010x} {:#010x}, {copies} arrive", ids.0, ids.1)
        });
        for _ in 0..copies {
            let at = self.now() + self.plan.latency + up_to(&mut self.network, self.plan.jitter);
            self.clock.schedule(time(at), Happening::Arrive { from, to, mad: Box::new(*mad) });
        }
    }

    fn crash(&mut self, crash: ProcessCrash) {
        let stories = self.plan.attempts.iter().enumerate().filter(|(_, a)| a.from == crash.node || a.to == crash.node);
        for (tag, _) in stories {
            self.stories.of(tag as u32).crashed = true;
        }
        let state = if crash.process_only { Power::NoProcess } else { Power::Off };
        let closing_mads = self.nodes[crash.node].die(state, crash.same_qpns);
        self.trace.note(self.clock.now(), &[crash.node as u64], || format!("node {} dies: {state:?}", crash.node));
        for closing_mad in closing_mads.into_iter().filter(|_| crash.process_only) {
            self.see("closing message");
            let to = node_of(closing_mad.route.remote);
            let left = if closing_mad.until_answered { CLOSING_REPEATS } else { 0 };
            let now = self.clock.now();
            let mad = Box::new(closing_mad.mad);
            self.clock.schedule(now, Happening::ClosingMad { from: crash.node, to, mad, left });
        }
    }

    /// Applications check connections that are too quiet, and leave them.
    fn notice(&mut self) -> Outcome {
        for node in 0..self.nodes.len() {
            let ids: Vec<ConnId> = self.nodes[node].held.keys().copied().collect();
            ids.into_iter().for_each(|id| self.act(node, Action::Leave(id)));
            self.settle(node)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Outcome {
        self.stories.finish()?;
        for (index, node) in self.nodes.iter().enumerate() {
            let counters = *node.manager.counters();
            ensure!("when one leaves, the other is told", node.held.is_empty(), "node {index} holds {:?}", node.held);
            let left = node.manager.ids_in_use();
            ensure!("no id leaks", left == 0, "node {index} has {left}");
            ensure!("no timer is left", node.manager.next_timeout().is_none(), "node {index}");
            // A doubled REQ may arrive when the request is over, and begin another that no application wants.
            let prompt = self.plan.thinking <= Duration::from_secs(1) && self.plan.duplicate_percent == 0;
            let clean = self.plan.is_clean() && prompt;
            ensure!("where nothing goes wrong nothing is sent twice", !clean || counters.repeated == 0, "{counters:?}");
            ensure!("nobody sends nonsense", counters.malformed == 0, "{counters:?}");
        }
        let counters: Vec<cm::Counters> = self.nodes.iter().map(|node| *node.manager.counters()).collect();
        for counters in counters {
            let counts = [
                ("repeated", counters.repeated),
                ("duplicate", counters.duplicate),
                ("unknown", counters.unknown),
                ("foreign", counters.foreign),
                ("unexpected", counters.unexpected),
                ("stale", counters.stale),
            ];
            counts.into_iter().for_each(|(what, count)| *self.seen.entry(what.to_owned()).or_default() += count);
        }
        Ok(())
    }
}

/// Runs the plan of a seed.
///
/// # Errors
/// A broken rule, or a panic of the code under test.
pub fn run_seed(seed: u64) -> Result<ConnectionsReport, crate::RunFailure> {
    run(&mut ConnectionsWorld::new(Plan::generate(seed), false)).map_err(|reason| crate::RunFailure {
        seed,
        reason,
        connections: true,
    })
}

/// Runs a world, and makes a panic into a reason like any other.
///
/// # Errors
/// A broken rule, or a panic of the code under test.
pub fn run(world: &mut ConnectionsWorld) -> Result<ConnectionsReport, String> {
    crate::run::guarded(|| world.run())
}

fn time(at: Duration) -> Time {
    Time(at.as_nanos() as u64)
}

fn u32_at(mad: &[u8; 256], at: usize) -> u32 {
    u32::from_be_bytes([mad[at], mad[at + 1], mad[at + 2], mad[at + 3]])
}

fn name_of_attribute(attribute: Attribute) -> &'static str {
    match attribute {
        Attribute::REQ => "REQ",
        Attribute::MRA => "MRA",
        Attribute::REJ => "REJ",
        Attribute::REP => "REP",
        Attribute::RTU => "RTU",
        Attribute::DREQ => "DREQ",
        Attribute::DREP => "DREP",
        Attribute::SIDR_REQ => "SIDR_REQ",
        Attribute::SIDR_REP => "SIDR_REP",
        _ => "a stranger",
    }
}

fn name_of(event: &CmEvent) -> &'static str {
    match event {
        CmEvent::Request(_) => "Request",
        CmEvent::Reply(_) => "Reply",
        CmEvent::ReadyToUse { .. } => "ReadyToUse",
        CmEvent::Delayed { .. } => "Delayed",
        CmEvent::Rejected(_) => "Rejected",
        CmEvent::Unreachable => "Unreachable",
        CmEvent::DisconnectRequest { .. } => "DisconnectRequest",
        CmEvent::Disconnected { .. } => "Disconnected",
        CmEvent::TimewaitExit => "TimewaitExit",
        CmEvent::SidrRequest(_) => "SidrRequest",
        CmEvent::SidrReply(_) => "SidrReply",
        CmEvent::SidrUnreachable => "SidrUnreachable",
    }
}

//! The decisions of a seed before a run: the network, the connections, the crashes.

use std::fmt;
use std::time::Duration;

use faults::Rng;

use crate::rng::{Stream, micros, up_to};

/// A node loses everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessCrash {
    pub(crate) node: usize,
    pub(crate) at: Duration,
    pub(crate) down: Duration,
    /// Only the process dies: the host refuses in its name, and sends its closing messages.
    pub(crate) process_only: bool,
    /// The next process counts its queue pairs from the beginning again.
    pub(crate) same_qpns: bool,
}

/// The end that closes a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaver {
    Client,
    Server,
    Both,
}

/// A client asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) at: Duration,
    pub(crate) datagram: bool,
    pub(crate) leaver: Leaver,
}

/// Everything about a run but what the applications draw as they go.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) seed: u64,
    pub(crate) nodes: usize,
    pub(crate) latency: Duration,
    pub(crate) jitter: Duration,
    pub(crate) loss_percent: u64,
    pub(crate) duplicate_percent: u64,
    /// Nothing gets through from then on for that long.
    pub(crate) cut: Option<(Duration, Duration)>,
    /// The longest time for which applications think.
    pub(crate) thinking: Duration,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) crashes: Vec<ProcessCrash>,
}

const MINUTE: Duration = Duration::from_secs(60);

impl Plan {
    /// The plan of a seed.
    pub fn generate(seed: u64) -> Plan {
        let mut rng = Stream::Connections(0).rng(seed);
        let rng = &mut rng;
        let nodes = rng.range(2..=4) as usize;
        let clean = rng.below(4) == 0;
        let attempts = (0..rng.range(1..=16)).map(|_| attempt(rng, nodes)).collect();
        let mut plan = Plan {
            seed,
            nodes,
            latency: micros(rng, 1..=20_000),
            jitter: Duration::ZERO,
            loss_percent: 0,
            duplicate_percent: 0,
            cut: None,
            thinking: Duration::from_secs(1),
            attempts,
            crashes: Vec::new(),
        };
        if !clean {
            plan.spoil(rng);
        }
        plan
    }

    fn spoil(&mut self, rng: &mut Rng) {
        self.jitter = up_to(rng, Duration::from_millis(800));
        self.loss_percent = [0, 2, 10, 30][rng.below(4) as usize];
        self.duplicate_percent = [0, 5, 30][rng.below(3) as usize];
        self.thinking = up_to(rng, Duration::from_secs(20));
        if rng.below(6) == 0 {
            self.cut = Some((up_to(rng, MINUTE), up_to(rng, MINUTE * 3)));
        }
        let crashes = [0, 0, 1, 3][rng.below(4) as usize];
        self.crashes = (0..crashes).map(|_| crash(rng, self.nodes)).collect();
    }

    /// Nothing is lost and no process dies.
    pub(crate) fn is_clean(&self) -> bool {
        self.loss_percent == 0 && self.cut.is_none() && self.crashes.is_empty()
    }

    pub(crate) fn is_cut(&self, now: Duration) -> bool {
        self.cut.is_some_and(|(from, length)| from <= now && now < from + length)
    }
}

fn attempt(rng: &mut Rng, nodes: usize) -> Attempt {
    let from = rng.below(nodes as u64) as usize;
    Attempt {
        from,
        // Also to itself: a process may connect with itself.
        to: rng.below(nodes as u64) as usize,
        at: up_to(rng, MINUTE),
        datagram: rng.below(5) == 0,
        leaver: [Leaver::Client, Leaver::Server, Leaver::Both][rng.below(3) as usize],
    }
}

fn crash(rng: &mut Rng, nodes: usize) -> ProcessCrash {
    ProcessCrash {
        node: rng.below(nodes as u64) as usize,
        at: up_to(rng, MINUTE),
        down: up_to(rng, MINUTE / 3),
        process_only: rng.below(2) == 0,
        same_qpns: rng.below(2) == 0,
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {} nodes, {} attempts", self.seed, self.nodes, self.attempts.len())?;
        writeln!(
            f,
            "  latency {:?}, jitter {:?}, loss {} %, duplicates {} %, cut {:?}, thinking {:?}",
            self.latency, self.jitter, self.loss_percent, self.duplicate_percent, self.cut, self.thinking
        )?;
        self.crashes.iter().try_for_each(|crash| writeln!(f, "  {crash:?}"))
    }
}

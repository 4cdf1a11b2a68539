//! Many senders, one receiver: what a switch's queue does, and how fair the flows are, with each of the ways to
//! keep a network lossless.
//!
//! ```text
//!  sender 0  ─ link ─► ┌────────────────────────┐
//!  sender 1  ─ link ─► │ ingress accounts (PFC) │
//!    ...               │ one egress queue (ECN) │ ─ link ─► receiver: marks ─► CNP
//!  sender 63 ─ link ─► └────────────────────────┘
//! ```
//! The queue pairs are the real ones of `transport`, one connection for each sender, and their packets are real
//! packets. Links, switch and memory are models: answers take the way back without waiting, and
//! payload is not looked at.

mod chart;
mod host;
mod page;
mod switch;
mod world;

use core::time::Duration;

use transport::{Dcqcn, Mtu, Time};

pub use chart::chart;
pub use page::page;
pub use switch::SwitchSpec;

/// How the network is kept from losing packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Not at all: what does not fit the switch's buffer is lost.
    Neither,
    /// Priority flow control (IEEE 802.1Qbb): the switch pauses links whose packets fill its buffer.
    Pfc,
    /// DCQCN: the switch marks, the receiver notifies, the senders slow down.
    Dcqcn,
    /// Both, as the paper recommends.
    Both,
}

impl Way {
    /// All of them.
    pub const ALL: [Way; 4] = [Way::Neither, Way::Pfc, Way::Dcqcn, Way::Both];

    /// For tables and plots.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Neither => "neither",
            Way::Pfc => "PFC only",
            Way::Dcqcn => "DCQCN only",
            Way::Both => "PFC and DCQCN",
        }
    }

    fn pauses(self) -> bool {
        matches!(self, Way::Pfc | Way::Both)
    }

    fn marks(self) -> bool {
        matches!(self, Way::Dcqcn | Way::Both)
    }
}

/// What is simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Plan {
    /// Decides when senders begin and which packets are marked.
    pub seed: u64,
    /// Senders; each has one connection and always something to send.
    pub senders: usize,
    /// How long.
    pub duration: Duration,
    /// How losses are avoided.
    pub way: Way,
    /// Speed of every link, in bytes per microsecond.
    pub link_bytes_per_us: u64,
    /// One way over one link.
    pub link_delay: Duration,
    /// Payload of a packet at most.
    pub mtu: Mtu,
    /// The switch.
    pub switch: SwitchSpec,
    /// The senders' reaction and the receiver's notifications.
    pub dcqcn: Dcqcn,
}

impl Plan {
    /// 64 senders on links of 40 Gb/s, with the parameters of the paper.
    pub fn new(way: Way, seed: u64) -> Plan {
        Plan {
            seed,
            senders: 64,
            duration: Duration::from_millis(40),
            way,
            link_bytes_per_us: 5000,
            link_delay: Duration::from_micros(1),
            mtu: Mtu::B1024,
            switch: SwitchSpec::default(),
            dcqcn: Dcqcn { line_rate: 5_000_000_000, ..Dcqcn::default() },
        }
    }
}

/// Length of the queue at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When.
    pub at: Time,
    /// Bytes in the queue to the receiver.
    pub queue_bytes: u64,
}

/// How a run went. What is said of the second half is so of the time after the flows have converged.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// What was simulated.
    pub plan: Plan,
    /// The queue over time.
    pub samples: Vec<Sample>,
    /// Acknowledged bytes per second of each flow, in the second half.
    pub goodput: Vec<f64>,
    /// Packets that found no room in the switch.
    pub drops: u64,
    /// Packets that senders sent again.
    pub sent_again: u64,
    /// Times that a link was paused.
    pub pauses: u64,
    /// Time that links were paused, of all links together.
    pub paused: Duration,
    /// The same in the second half.
    pub paused_later: Duration,
    /// Packets marked.
    pub marks: u64,
    /// Congestion notifications that senders received.
    pub notifications: u64,
    /// Queue pairs that gave up.
    pub failures: usize,
}

impl Outcome {
    /// Bytes per second of all flows together.
    pub fn total(&self) -> f64 {
        self.goodput.iter().sum()
    }

    /// Jain's index of fairness: 1 when all flows are equal, 1/n when one has everything.
    pub fn fairness(&self) -> f64 {
        let squares: f64 = self.goodput.iter().map(|rate| rate * rate).sum();
        if squares == 0.0 { 0.0 } else { self.total().powi(2) / (squares * self.goodput.len() as f64) }
    }

    /// The longest queue ever.
    pub fn longest_queue(&self) -> u64 {
        self.samples.iter().map(|sample| sample.queue_bytes).max().unwrap_or(0)
    }

    /// The queue's length in the second half: mean and longest.
    pub fn later_queue(&self) -> (u64, u64) {
        let half = Time(0) + self.plan.duration / 2;
        let later: Vec<u64> = self.samples.iter().filter(|s| s.at >= half).map(|s| s.queue_bytes).collect();
        let mean = later.iter().sum::<u64>().checked_div(later.len() as u64).unwrap_or(0);
        (mean, later.into_iter().max().unwrap_or(0))
    }
}

/// Runs a plan.
pub fn run(plan: &Plan) -> Outcome {
    world::World::new(plan).run()
}

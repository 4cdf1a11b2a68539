//! The plan of an incast, and its result.

use core::time::Duration;

use transport::{Dcqcn, Mtu, Time};

use super::switch::SwitchSpec;

/// The means that keep the network from losing packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossControl {
    /// Not at all: packets that do not fit the switch's buffer are lost.
    Neither,
    /// Priority flow control (IEEE 802.1Qbb): the switch pauses links whose packets fill its buffer.
    Pfc,
    /// DCQCN: the switch marks, the receiver notifies, the senders slow down.
    Dcqcn,
    /// Both, as the paper recommends.
    Both,
}

impl LossControl {
    /// All of them.
    pub const ALL: [LossControl; 4] = [LossControl::Neither, LossControl::Pfc, LossControl::Dcqcn, LossControl::Both];

    /// For tables and plots.
    pub const fn name(self) -> &'static str {
        match self {
            LossControl::Neither => "neither",
            LossControl::Pfc => "PFC only",
            LossControl::Dcqcn => "DCQCN only",
            LossControl::Both => "PFC and DCQCN",
        }
    }

    pub(super) fn pauses(self) -> bool {
        matches!(self, LossControl::Pfc | LossControl::Both)
    }

    pub(super) fn marks(self) -> bool {
        matches!(self, LossControl::Dcqcn | LossControl::Both)
    }
}

/// The parameters of a simulation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct IncastPlan {
    /// Decides when senders begin and which packets are marked.
    pub seed: u64,
    /// Senders; each has one connection and always something to send.
    pub senders: usize,
    /// Simulated time.
    pub duration: Duration,
    /// The means against losses.
    pub loss_control: LossControl,
    /// Speed of every link, in bytes per microsecond.
    pub link_bytes_per_us: u64,
    /// The delay of one link, in one direction.
    pub link_delay: Duration,
    /// Payload of a packet at most.
    pub mtu: Mtu,
    /// The switch.
    pub switch: SwitchSpec,
    /// The senders' reaction and the receiver's notifications.
    pub dcqcn: Dcqcn,
}

impl IncastPlan {
    /// 64 senders on links of 40 Gb/s, with the parameters of the paper.
    pub fn new(loss_control: LossControl, seed: u64) -> IncastPlan {
        IncastPlan {
            seed,
            senders: 64,
            duration: Duration::from_millis(40),
            loss_control,
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
pub struct QueueSample {
    /// The time.
    pub at: Time,
    /// Bytes in the queue to the receiver.
    pub queue_bytes: u64,
}

/// The result of a run. "Second half" is the time after the flows have converged.
#[derive(Clone, PartialEq, Debug)]
pub struct IncastResult {
    /// The parameters of the run.
    pub plan: IncastPlan,
    /// The queue over time.
    pub samples: Vec<QueueSample>,
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

impl IncastResult {
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

//! The project's goals: pairs of figures, and the ratio to reach.

use crate::baseline::SegmentWork;

use super::measure::{Contender, Measure, MessagePath, Quantity, TestVerb, VmDriver};

use Contender::{Api, Iperf3, Memory, Perftest, Segments, Tcp, UcxShm, UcxTcp, Udp};
use MessagePath::{Host, Lossy, Wire};
use Quantity::{Bandwidth, Latency, Rate};
use TestVerb::{FetchAdd, Read, Send, Write};

/// The required ratio or value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Goal {
    /// Longarm's figure is at most this multiple of the peer's.
    AtMost(f64),
    /// Longarm's figure is at least this multiple of the peer's.
    AtLeast(f64),
    /// Longarm's figure is at most this value.
    Below(f64),
    /// No goal: the row is only shown.
    Shown,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoalRow {
    pub(super) id: &'static str,
    pub(super) ours: Measure,
    pub(super) theirs: Option<Measure>,
    pub(super) goal: Goal,
}

impl Goal {
    /// Whether the goal is reached, from Longarm's median and the peer's; `None` without the figures.
    pub(super) fn is_reached(self, ours: Option<f64>, theirs: Option<f64>) -> Option<bool> {
        let ratio = ours.zip(theirs).map(|(ours, theirs)| ours / theirs);
        match self {
            Goal::AtMost(most) => ratio.map(|ratio| ratio <= most),
            Goal::AtLeast(least) => ratio.map(|ratio| ratio >= least),
            Goal::Below(most) => ours.map(|ours| ours <= most),
            Goal::Shown => None,
        }
    }

    /// The goal as text; formats values like those of `measure`.
    pub(super) fn words(self, measure: &Measure) -> String {
        match self {
            Goal::AtMost(most) => format!("≤ {most} ×"),
            Goal::AtLeast(least) => format!("≥ {least} ×"),
            Goal::Below(most) => format!("≤ {}", measure.show(most)),
            Goal::Shown => String::new(),
        }
    }
}

const KIB_64: u32 = 64 << 10;
const MIB: u32 = 1 << 20;
/// The goal of S3 in nanoseconds.
const S3_NS: f64 = 100.0;

fn row(id: &'static str, ours: Measure, theirs: Measure, goal: Goal) -> GoalRow {
    GoalRow { id, ours, theirs: Some(theirs), goal }
}

/// The tests in the guest of a virtual machine: latency and rate of small messages, bandwidth.
pub(super) const GUEST_WORK: [(Quantity, TestVerb, u32); 7] = [
    (Latency, Send, 64),
    (Latency, Write, 64),
    (Latency, Read, 64),
    (Rate, Send, 64),
    (Bandwidth, Send, KIB_64),
    (Bandwidth, Write, KIB_64),
    (Bandwidth, Read, KIB_64),
];

/// C3: Longarm beside the kernel's drivers in one guest.
pub(super) fn guest_rows() -> Vec<GoalRow> {
    let mut rows = Vec::new();
    for (quantity, verb, size) in GUEST_WORK {
        let of = |driver| Measure::new(Contender::Guest(driver), quantity, verb, size);
        let goal = if quantity == Latency { Goal::AtMost(0.5) } else { Goal::AtLeast(2.0) };
        for message_path in [Host, Wire] {
            rows.push(row("C3", of(VmDriver::Longarm(message_path)), of(VmDriver::Rxe), goal));
            rows.push(row("C3", of(VmDriver::Longarm(message_path)), of(VmDriver::Siw), Goal::Shown));
        }
    }
    rows
}

/// All goals that compare two figures; those of many queue pairs use `qps` of them. Rows that
/// share figures are adjacent: each figure is measured once per round.
pub(super) fn rows(qps: u32) -> Vec<GoalRow> {
    [same_host_latency(), same_host_bandwidth(), wire_latency(), wire_bandwidth(), scale(qps)].concat()
}

fn same_host_latency() -> Vec<GoalRow> {
    let new = Measure::new;
    let tag = new(UcxShm, Latency, Send, 8);
    let floor = new(Memory, Latency, Write, 8);
    let stopped = |verb| Measure { stopped: true, ..new(Api(Host), Latency, verb, 8) };
    let mut rows = vec![
        row("S1", new(Api(Host), Latency, Send, 8), tag, Goal::AtMost(1.5)),
        row("S1", new(Perftest(Host), Latency, Send, 8), tag, Goal::AtMost(2.0)),
        row("S2", new(Api(Host), Latency, Write, 8), floor, Goal::AtMost(2.0)),
        row("S2", new(Perftest(Host), Latency, Write, 8), floor, Goal::AtMost(2.0)),
        row("S2", new(Api(Host), Latency, Write, 8), new(UcxShm, Latency, Write, 8), Goal::Shown),
    ];
    for verb in [Read, FetchAdd] {
        let theirs = new(UcxShm, Latency, verb, 8);
        rows.push(row("S3", new(Api(Host), Latency, verb, 8), theirs, Goal::Below(S3_NS)));
        rows.push(row("S3", new(Perftest(Host), Latency, verb, 8), theirs, Goal::Below(S3_NS)));
        rows.push(GoalRow { id: "S3", ours: stopped(verb), theirs: None, goal: Goal::Below(S3_NS) });
    }
    rows
}

fn same_host_bandwidth() -> Vec<GoalRow> {
    let new = Measure::new;
    let put = new(UcxShm, Bandwidth, Write, KIB_64);
    let tag = new(UcxShm, Bandwidth, Send, KIB_64);
    let mut rows = Vec::new();
    for contender in [Api(Host), Perftest(Host)] {
        rows.push(row("S4", new(contender, Bandwidth, Write, KIB_64), put, Goal::AtLeast(0.9)));
        rows.push(row("S4", new(contender, Bandwidth, Read, KIB_64), put, Goal::AtLeast(0.9)));
        rows.push(row("S4", new(contender, Bandwidth, Send, KIB_64), tag, Goal::AtLeast(2.0)));
    }
    let copy = new(Memory, Bandwidth, Write, KIB_64);
    rows.push(row("S4", new(Api(Host), Bandwidth, Write, KIB_64), copy, Goal::Shown));
    let rate = new(UcxShm, Rate, Send, 8);
    rows.push(row("S5", new(Api(Host), Rate, Send, 8), rate, Goal::AtLeast(0.75)));
    rows.push(row("S5", new(Perftest(Host), Rate, Send, 8), rate, Goal::AtLeast(0.75)));
    rows
}

fn wire_latency() -> Vec<GoalRow> {
    let new = Measure::new;
    let (udp, tcp) = (new(Udp, Latency, Send, 64), new(Tcp, Latency, Send, 64));
    let mut rows = Vec::new();
    for contender in [Api(Wire), Perftest(Wire)] {
        rows.push(row("W1", new(contender, Latency, Send, 64), udp, Goal::AtMost(1.3)));
        rows.push(row("W1", new(contender, Latency, Send, 64), tcp, Goal::AtMost(1.0)));
    }
    rows
}

fn wire_bandwidth() -> Vec<GoalRow> {
    let new = Measure::new;
    let iperf3 = new(Iperf3, Bandwidth, Send, 128 << 10);
    let mut rows = Vec::new();
    for size in [KIB_64, MIB] {
        for verb in [Write, Send] {
            let ucx = new(UcxTcp, Bandwidth, verb, size);
            for contender in [Api(Wire), Perftest(Wire)] {
                let ours = new(contender, Bandwidth, verb, size);
                rows.push(row("W2", ours, iperf3, Goal::AtLeast(1.5)));
                rows.push(row("W2", ours, ucx, Goal::AtLeast(2.5)));
            }
        }
    }
    for care in [SegmentWork::Bare, SegmentWork::Copied, SegmentWork::Checked] {
        let floor = new(Segments(care), Bandwidth, Write, KIB_64);
        rows.push(row("W2", new(Api(Wire), Bandwidth, Write, KIB_64), floor, Goal::Shown));
    }
    let sendto = new(Udp, Rate, Send, 64);
    rows.push(row("W3", new(Api(Wire), Rate, Send, 64), sendto, Goal::AtLeast(5.0)));
    rows.push(row("W3", new(Perftest(Wire), Rate, Send, 64), sendto, Goal::AtLeast(5.0)));
    for verb in [Write, Send] {
        let lossless = new(Api(Wire), Bandwidth, verb, KIB_64);
        rows.push(row("W4", new(Api(Lossy), Bandwidth, verb, KIB_64), lossless, Goal::AtLeast(0.5)));
    }
    rows
}

fn scale(qps: u32) -> Vec<GoalRow> {
    let new = Measure::new;
    let mut rows = Vec::new();
    for message_path in [Host, Wire] {
        let of = |qps| Measure { qps, ..new(Api(message_path), Rate, Send, 64) };
        rows.push(row("C1", of(qps), of(10), Goal::AtLeast(0.9)));
        // More queue pairs than one slot of the UDP port has numbers for.
        rows.push(row("C1", of(qps * 10), of(10), Goal::Shown));
    }
    // One case without the peer's processor, and one whose cost is mostly that of the bytes.
    for (quantity, verb, size) in [(Rate, Write, 64), (Bandwidth, Send, KIB_64)] {
        let of = |qps| Measure { qps, ..new(Api(Host), quantity, verb, size) };
        rows.push(row("C1", of(qps), of(10), Goal::AtLeast(0.9)));
    }
    // One-sided operations on one host need no processor of the target; on the wire the target's threads need one.
    let shared = [(Host, Rate, Read, 8), (Host, Bandwidth, Write, KIB_64)];
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wire = if cores >= 4 { &[(Wire, Rate, Send, 64)][..] } else { &[] };
    for (message_path, quantity, verb, size) in shared.iter().chain(wire).copied() {
        let of = |threads| Measure { threads, ..new(Api(message_path), quantity, verb, size) };
        rows.push(row("C1", of(2), of(1), Goal::Shown));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_hold_ratios_and_values() {
        assert_eq!(Goal::AtMost(2.0).is_reached(Some(4.0), Some(2.0)), Some(true));
        assert_eq!(Goal::AtMost(1.9).is_reached(Some(4.0), Some(2.0)), Some(false));
        assert_eq!(Goal::AtLeast(2.1).is_reached(Some(4.0), Some(2.0)), Some(false));
        assert_eq!(Goal::AtLeast(0.5).is_reached(Some(4.0), None), None, "no peer, no verdict");
        assert_eq!(Goal::Below(100.0).is_reached(Some(99.0), None), Some(true));
        assert_eq!(Goal::Shown.is_reached(Some(1.0), Some(1.0)), None);
    }

    #[test]
    fn every_goal_has_its_rows() {
        let rows = rows(10_000);
        for id in ["S1", "S2", "S3", "S4", "S5", "W1", "W2", "W3", "W4", "C1"] {
            assert!(rows.iter().any(|row| row.id == id && row.goal != Goal::Shown), "{id}");
        }
        let same = |row: &&GoalRow| row.theirs.is_some_and(|theirs| theirs.quantity != row.ours.quantity);
        assert!(rows.iter().find(same).is_none(), "only like is held beside like");
    }
}

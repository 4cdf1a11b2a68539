//! The targets R1 to R6.

use super::figure::{FigurePick, FigureSource, RpcFigure};
use super::options::RpcOptions;

use FigurePick::{Bandwidth, Calls, IdleBytes, Median, ReplyBytes, Tail, TailOverMedian};

const WAYS: [&str; 5] = ["ring", "herd", "datagram", "immediate", "fetch"];

/// The figure to compare with.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    pub(super) figure: RpcFigure,
    /// The multiple of it, such as two one-way messages for a round trip.
    pub(super) times: f64,
}

/// The ratio or value to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RowGoal {
    /// Ours is at most this multiple of the other.
    AtMost(f64),
    /// Ours is at least this multiple of the other.
    AtLeast(f64),
    /// The other takes at least this multiple of our time.
    Faster(f64),
    /// Ours is at most this value.
    Below(f64),
    /// Ours is at least this value.
    Above(f64),
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(super) struct RpcRow {
    pub(super) id: &'static str,
    pub(super) what: String,
    /// One figure for each way that may reach the goal; the best one counts.
    pub(super) ours: Vec<RpcFigure>,
    pub(super) beside: Option<Beside>,
    pub(super) goal: RowGoal,
    seconds: f64,
}

impl RpcRow {
    /// All figures with the seconds to measure.
    pub(super) fn figures(&self) -> impl Iterator<Item = (&RpcFigure, f64)> {
        let beside = self.beside.iter().map(|beside| &beside.figure);
        self.ours.iter().chain(beside).map(|figure| (figure, self.seconds))
    }
}

impl RowGoal {
    /// The ratio or value that the goal is about.
    pub(super) fn value(self, ours: f64, beside: Option<f64>) -> Option<f64> {
        match self {
            RowGoal::AtMost(_) | RowGoal::AtLeast(_) => beside.map(|beside| ours / beside),
            RowGoal::Faster(_) => beside.map(|beside| beside / ours),
            RowGoal::Below(_) | RowGoal::Above(_) => Some(ours),
        }
    }

    /// Whether the value reaches the goal.
    pub(super) fn is_met(self, value: f64) -> bool {
        match self {
            RowGoal::AtMost(most) | RowGoal::Below(most) => value <= most,
            RowGoal::AtLeast(least) | RowGoal::Faster(least) | RowGoal::Above(least) => value >= least,
        }
    }
}

/// The rows of the chosen targets. Rows that share figures are adjacent.
pub(super) fn rows(options: &RpcOptions) -> Vec<RpcRow> {
    let all = [latency(), rate(), many_clients(options.clients), long_replies(), tails()].concat();
    let chosen = all.into_iter().filter(|row| options.targets.contains(&row.id));
    chosen.map(|row| RpcRow { seconds: options.seconds, ..row }).collect()
}

fn row(
    id: &'static str,
    what: &str,
    ours: Vec<RpcFigure>,
    beside: impl Into<Option<(RpcFigure, f64)>>,
    goal: RowGoal,
) -> RpcRow {
    let beside = beside.into().map(|(figure, times)| Beside { figure, times });
    RpcRow { id, what: what.into(), ours, beside, goal, seconds: 1.0 }
}

/// `longarm rpc bench` for each of the ways.
fn bench(ways: &[&str], wire: bool, pick: FigurePick, arguments: &str) -> Vec<RpcFigure> {
    let one = |way: &&str| RpcFigure {
        source: FigureSource::Longarm,
        arguments: format!("rpc bench --way {way} {arguments}"),
        wire,
        busy: false,
        pick,
        name: (*way).into(),
    };
    ways.iter().map(one).collect()
}

fn perf(wire: bool, pick: FigurePick, name: &str, arguments: &str) -> RpcFigure {
    let (source, arguments) = (FigureSource::Longarm, format!("perf {arguments}"));
    RpcFigure { source, arguments, wire, busy: false, pick, name: name.into() }
}

fn peer(pick: FigurePick, name: &str, arguments: &str) -> RpcFigure {
    let arguments = format!("{name} {arguments}");
    RpcFigure { source: FigureSource::Peers, arguments, wire: false, busy: false, pick, name: name.into() }
}

fn latency() -> Vec<RpcRow> {
    let host = bench(&WAYS, false, Median, "--size 32 --mode latency --together 16");
    let wire = bench(&WAYS, true, Median, "--size 32 --mode latency");
    let call = |name| (peer(Median, name, "--size 32 --mode latency"), 1.0);
    let write = perf(false, Median, "WRITE, one way", "write --size 8 --mode latency --together 16");
    let send = perf(true, Median, "SEND, one way", "send --size 64 --mode latency");
    let (r1, r2) = ("same host, 32 B, one outstanding", "wire, 32 B, one outstanding");
    vec![
        row("R1", r1, host.clone(), (write, 2.0), RowGoal::AtMost(1.25)),
        row("R1", r1, host.clone(), call("tonic-unix"), RowGoal::Faster(20.0)),
        row("R1", r1, host.clone(), call("tarpc-unix"), RowGoal::Faster(10.0)),
        row("R1", r1, host.clone(), call("capnp-unix"), RowGoal::Faster(10.0)),
        row("R1", r1, host, call("unix"), RowGoal::Faster(1.0)),
        row("R2", r2, wire.clone(), (send, 2.0), RowGoal::AtMost(1.15)),
        row("R2", r2, wire.clone(), call("tonic-tcp"), RowGoal::Faster(5.0)),
        row("R2", r2, wire.clone(), call("capnp-tcp"), RowGoal::Faster(1.0)),
        row("R2", r2, wire, call("tcp"), RowGoal::Faster(1.0)),
    ]
}

fn rate() -> Vec<RpcRow> {
    let ours = |wire| bench(&WAYS, wire, Calls, "--size 32 --mode rate --depth 32");
    let tonic = |name| (peer(Calls, name, "--size 32 --mode rate --depth 32"), 1.0);
    let (host, wire) = ("same host, 32 B, 32 outstanding, one client", "wire, 32 B, 32 outstanding, one client");
    vec![
        row("R3", host, ours(false), None, RowGoal::Above(5e6)),
        row("R3", host, ours(false), tonic("tonic-unix"), RowGoal::AtLeast(20.0)),
        row("R3", wire, ours(true), None, RowGoal::Above(1.5e6)),
        row("R3", wire, ours(true), tonic("tonic-tcp"), RowGoal::AtLeast(20.0)),
    ]
}

fn many_clients(clients: u32) -> Vec<RpcRow> {
    let mut rows = Vec::new();
    for way in ["datagram", "immediate"] {
        for (wire, path) in [(false, "same host"), (true, "wire")] {
            let of =
                |clients| bench(&[way], wire, Calls, &format!("--size 32 --mode rate --depth 4 --clients {clients}"));
            let few = of(8).into_iter().map(|figure| RpcFigure { name: format!("{way}, 8 clients"), ..figure });
            let beside = few.map(|figure| (figure, 1.0)).next();
            rows.push(row("R4", &format!("{path}, {clients} clients"), of(clients), beside, RowGoal::AtLeast(0.8)));
        }
        let idle = bench(&[way], false, IdleBytes, &format!("--calls 1000 --idle {clients}"));
        let what = format!("the server's memory for each of {clients} idle clients");
        rows.push(row("R4", &what, idle, None, RowGoal::Below(16.0 * 1024.0)));
    }
    rows
}

fn long_replies() -> Vec<RpcRow> {
    let mut rows = Vec::new();
    for (wire, path) in [(false, "same host"), (true, "wire")] {
        let ours = bench(&WAYS, wire, ReplyBytes, "--size 32 --reply 1M --mode rate --depth 4");
        let write = perf(wire, Bandwidth, "WRITE, 1 MiB", "write --size 1M --mode stream");
        rows.push(row("R5", &format!("{path}, replies of 1 MiB"), ours, (write, 1.0), RowGoal::AtLeast(0.9)));
    }
    rows
}

fn tails() -> Vec<RpcRow> {
    let load = "--size 32 --mode load --load 70 --depth 32";
    let loose = format!("{load} --unpinned");
    let busy = |figure: RpcFigure| RpcFigure { busy: true, ..figure };
    let mut rows = Vec::new();
    for (wire, path) in [(false, "same host"), (true, "wire")] {
        let what = format!("{path}, 99.9 % of the calls at 70 % of the rate, beside the median");
        rows.push(row("R6", &what, bench(&WAYS, wire, TailOverMedian, load), None, RowGoal::Below(5.0)));
        let what = format!("{path}, 99.9 % of the calls at 70 % of the rate, with 4 spinning processes");
        let ours = bench(&WAYS, wire, Tail, &loose).into_iter().map(busy).collect();
        rows.push(row("R6", &what, ours, (busy(peer(Tail, "tcp", &loose)), 1.0), RowGoal::AtMost(1.0)));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::options::TARGETS;
    use super::*;

    #[test]
    fn every_target_has_rows_and_only_the_chosen_ones() {
        let options = RpcOptions::parse(&[]).unwrap();
        let all = rows(&options);
        assert!(TARGETS.iter().all(|target| all.iter().any(|row| row.id == *target)));
        let some = rows(&RpcOptions { targets: vec!["R3"], ..options });
        assert!(!some.is_empty() && some.iter().all(|row| row.id == "R3"));
    }

    #[test]
    fn goals_hold_ratios_and_values() {
        assert_eq!(RowGoal::Faster(20.0).value(100.0, Some(2500.0)), Some(25.0));
        assert_eq!(RowGoal::AtMost(1.0).value(100.0, None), None);
        assert!(RowGoal::Faster(20.0).is_met(25.0) && !RowGoal::AtMost(1.25).is_met(1.3));
        assert!(RowGoal::Below(5.0).is_met(5.0) && !RowGoal::Above(5e6).is_met(4e6));
    }
}

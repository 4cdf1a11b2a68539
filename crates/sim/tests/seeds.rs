//! Hundreds of seeds over every service, with all faults at once. A failure prints the
//! command that replays it. It also checks that the seeds together reach every feature.

use longarm_sim::{QpType, RunFailure, Seen, run_seed, seeds};
use wire::{Opcode, TransportService};

/// Runs `count` seeds of a service, and tells what there was to see.
fn sweep(service: QpType, count: usize) -> Seen {
    let chosen: Vec<u64> = seeds(service).take(count).collect();
    let (one, other) = chosen.split_at(count / 2);
    let (mut seen, more) = std::thread::scope(|scope| {
        let other = scope.spawn(|| run_all(other));
        (run_all(one), other.join().expect("a panic of a run is a failure, not a panic"))
    });
    for (what, times) in more.0 {
        *seen.0.entry(what).or_default() += times;
    }
    seen.1.extend(more.1);
    let texts: Vec<String> = seen.1.iter().map(RunFailure::to_string).collect();
    assert!(texts.is_empty(), "{} seeds failed\n{}", texts.len(), texts.join("\n"));
    seen.0
}

fn run_all(chosen: &[u64]) -> (Seen, Vec<RunFailure>) {
    let (mut seen, mut failures) = (Seen::new(), Vec::new());
    for seed in chosen {
        match run_seed(*seed) {
            Ok(report) => report.seen.into_iter().for_each(|(what, times)| *seen.entry(what).or_default() += times),
            Err(failure) => failures.push(failure),
        }
    }
    (seen, failures)
}

/// Every opcode of the service and everything else in the list came up.
fn reaches(seen: &Seen, service: TransportService, others: &[&str]) {
    let opcodes = Opcode::all().filter_map(Opcode::info).filter(|info| info.service == service);
    let wanted = opcodes.map(|info| info.name).chain(others.iter().copied());
    let missing: Vec<&str> = wanted.filter(|what| !seen.contains_key(*what)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}, but: {seen:#?}");
}

#[test]
fn reliable_connections() {
    let seen = sweep(QpType::Rc, 160);
    let operations =
        ["Send", "Write", "Read", "CompareSwap", "FetchAdd", "BindMw", "LocalInvalidate", "Recv", "RecvWriteImm"];
    let failures = [
        "WorkRequestFlushed",
        "RetryExceeded",
        "RnrRetryExceeded",
        "RemoteAccess",
        "RemoteInvalidRequest",
        "LocalProtection",
        "LocalLength",
    ];
    let events = ["AccessError", "RequestError", "CommunicationEstablished", "SendQueueDrained", "LastWqeReached"];
    let drops = ["qp_state", "out_of_sequence", "stale_duplicate", "ghost_response", "refused", "receiver_not_ready"];
    // Rare: both directions must have agreed, and a request must leave alone. The other forms are tested in `transport`.
    let own = ["SEND_ONLY_ACK", "WRITE_ONLY_ACK", "ACKNOWLEDGE_COOKIE", "SELECTIVE_ACKNOWLEDGE"];
    reaches(&seen, TransportService::Rc, &[&operations[..], &failures, &events, &drops, &own].concat());
}

#[test]
fn unreliable_connections() {
    let seen = sweep(QpType::Uc, 100);
    let others = ["BindMw", "LocalInvalidate", "RecvWriteImm", "uc_gap", "uc_access", "no_recv_wqe", "qp_state"];
    reaches(&seen, TransportService::Uc, &others);
}

#[test]
fn datagrams() {
    let seen = sweep(QpType::Ud, 100);
    reaches(&seen, TransportService::Ud, &["Recv", "qkey", "no_recv_wqe", "qp_state", "LastWqeReached"]);
}

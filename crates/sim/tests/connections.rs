//! Hundreds of seeds of connection managers. A failure prints the command that replays it.

use std::collections::BTreeMap;

use longarm_sim::connections::{ConnectionsReport, ConnectionsWorld, Plan, run, run_seed};

fn report(seed: u64, verbose: bool) -> ConnectionsReport {
    run(&mut ConnectionsWorld::new(Plan::generate(seed), verbose)).expect("it passes")
}

#[test]
fn both_ends_agree_whatever_happens() {
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut failures = Vec::new();
    for seed in 0..1500 {
        match run_seed(seed) {
            Ok(report) => report.seen.into_iter().for_each(|(what, times)| *seen.entry(what).or_default() += times),
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    assert!(failures.is_empty(), "{} seeds failed\n{}", failures.len(), failures.join("\n"));
    let wanted = [
        ["REQ", "MRA", "REJ", "REP", "RTU"],
        ["DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "closing message"],
        ["Request", "Reply", "ReadyToUse", "Delayed", "Rejected"],
        ["Unreachable", "DisconnectRequest", "Disconnected", "TimewaitExit", "SidrUnreachable"],
        ["SidrRequest", "SidrReply", "data before the RTU", "repeated", "duplicate"],
        ["unknown", "unexpected", "stale", "dropped", "asked"],
    ];
    let missing: Vec<&str> =
        wanted.into_iter().flatten().filter(|what| seen.get(*what).is_none_or(|times| *times == 0)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}, but: {seen:#?}");
}

#[test]
fn a_seed_is_a_run() {
    for seed in 100..110 {
        assert_eq!(report(seed, false), report(seed, true), "{seed}");
    }
    assert_ne!(report(1, false).hash, report(2, false).hash);
}

#[test]
fn one_command_replays() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_longarm-sim"))
        .args(["--connections", "--seed", "5", "--trace"])
        .output()
        .expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("seed 5: "), "the plan comes first");
    assert!(text.contains(": REQ 0x"), "then messages");
    assert!(text.trim_end().lines().last().is_some_and(|line| line.starts_with("passed: ")), "then the verdict");
}

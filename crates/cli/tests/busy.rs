//! Tests on a machine with less processor time than its processes want.

mod support;

use std::process::Command;

use support::Hosts;
use testkit::{must_succeed, said};

/// The median of half the round trip, in nanoseconds, between two processes on one processor.
fn median_on_one_core(hosts: &Hosts, local: &str, nap: &str) -> f64 {
    let longarm = hosts.longarm();
    let mut command = Command::new("taskset");
    command.args(["-c", "0"]).arg(longarm.get_program()).args(longarm.get_args());
    longarm.get_envs().for_each(|(name, value)| {
        command.env(name, value.unwrap_or_default());
    });
    command.env("LONGARM_LOCAL", local).env("LONGARM_NAP", nap);
    let arguments = ["perf", "send", "--mode", "latency", "--size", "64", "--rounds", "200", "--unpinned", "--json"];
    let output = must_succeed(command.args(arguments));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    result["latency"]["p50_ns"].as_f64().unwrap_or_else(|| panic!("a latency: {}", said(&output)))
}

#[test]
fn two_that_poll_on_one_core_hand_it_to_each_other() {
    let hosts = Hosts::one("one-core");
    for local in ["off", "on"] {
        let [napping, spinning] = ["on", "off"].map(|nap| median_on_one_core(&hosts, local, nap));
        // The factor is some hundred in fact: a spinning thread keeps the processor until the scheduler takes it away.
        assert!(napping * 10.0 < spinning, "LONGARM_LOCAL={local}: {napping} ns beside {spinning} ns without naps");
    }
}

#[test]
fn sixteen_processes_talk_to_each_other_and_no_queue_pair_dies() {
    let hosts = Hosts::one("mesh");
    for local in ["off", "on"] {
        let mut command = hosts.longarm();
        command.env("LONGARM_LOCAL", local).args(["mesh", "--processes", "16", "-D", "0.1", "--bare"]);
        let output = must_succeed(&mut command);
        let rate: f64 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a rate");
        assert!(rate > 0.0);
    }
}

#[test]
fn the_rows_of_a_busy_machine_are_measured_beside_their_peers() {
    let hosts = Hosts::one("busy");
    let arguments = ["compare", "--busy", "--rows", "B2", "--rounds", "1", "--seconds", "0.02"];
    let output = must_succeed(hosts.longarm().args(arguments));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| B2 ")).collect();
    assert_eq!(rows.len(), 4, "{}", said(&output));
    assert!(rows.iter().all(|row| row.contains(" × ") && !row.contains("not measured")), "{}", said(&output));
}

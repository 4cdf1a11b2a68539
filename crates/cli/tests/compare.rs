//! Tests of `longarm compare`: one target of each kind with real peers.

mod support;

use support::Hosts;
use testkit::{must_succeed, said};

#[test]
fn a_target_is_measured_beside_its_peer_and_written_down() {
    let hosts = Hosts::one("compare");
    let out = hosts.dir().join("docs");
    std::fs::create_dir_all(&out).expect("a directory for the page");
    let page = out.join("performance.md");
    std::fs::write(&page, "# Performance\n\nWritten by hand.\n").expect("the page");
    let arguments = ["compare", "--rows", "s1,W1,C2", "--rounds", "2", "--seconds", "0.02", "--qps", "20", "--dir"];
    let output = must_succeed(hosts.longarm().args(arguments).arg(&out));
    let text = std::fs::read_to_string(&page).expect("the page");
    assert!(text.starts_with("# Performance\n\nWritten by hand.\n"), "{text}");
    let rows: Vec<&str> =
        text.lines().filter(|line| line.starts_with("| S1 |") || line.starts_with("| W1 |")).collect();
    assert_eq!(rows.len(), 6, "{text}");
    for row in rows {
        assert!(row.contains("µs (") || row.contains(" ns ("), "{row}\n{}", said(&output));
        assert!(row.contains(" × | ≤ ") && !row.contains("not measured"), "{row}\n{}", said(&output));
    }
    assert!(text.contains("| C2 | CPU of a process with 20 idle QPs |"), "{text}");
    assert!(!text.contains("| S2 |"), "only what was asked for: {text}");
}

#[test]
fn reads_go_on_while_the_target_is_stopped() {
    let hosts = Hosts::one("stopped");
    let arguments = ["perf", "read", "--size", "8", "--rounds", "200", "--together", "4", "--stopped", "--json"];
    let output = must_succeed(hosts.longarm().args(arguments));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["latency"]["samples"], 50, "{result}");
}

#[test]
fn threads_have_queues_of_their_own() {
    let hosts = Hosts::one("threads");
    let arguments = ["perf", "send", "--size", "8", "--mode", "stream", "-T", "3", "-q", "2", "-D", "0.1", "--json"];
    let output = must_succeed(hosts.longarm().args(arguments));
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["test"]["threads"], 3);
    assert_eq!(result["lost_messages"], 0, "{result}");
    assert!(result["messages_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{result}");
}

#[test]
fn unmeasurable_targets_are_refused_first() {
    let hosts = Hosts::one("refused");
    for (arguments, reason) in [
        (&["compare", "--rows", "S9"][..], "there is no such target"),
        (&["perf", "send", "--stopped"], "needs the other process"),
        (&["perf", "send", "--mode", "latency", "-T", "2"], "measured by one thread"),
    ] {
        let output = hosts.longarm().args(arguments).output().expect("longarm");
        assert!(!output.status.success() && said(&output).contains(reason), "{arguments:?}: {}", said(&output));
    }
}

//! The crate `longarm` on the provider `verbs`: its own tests and all examples, on our `libibverbs.so.1`.
//!
//! The tests run as they are, in processes that `longarm run` starts and that take the library for the system's.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{Host, Hosts, LONGARM};
use testkit::{must_succeed, said, workspace_build};

#[test]
fn the_tests_of_the_crate_pass() {
    let suites = test_binaries();
    let of = |name: &str| {
        suites.iter().find(|(suite, _)| suite == name).unwrap_or_else(|| panic!("no suite {name}")).1.clone()
    };
    for suite in [
        "accepting",
        "asynchronous",
        "connecting",
        "connections",
        "datagrams",
        "disconnects",
        "examples",
        "extensions",
        "given_memory",
        "operations",
        "polling",
        "promise",
        "sharing",
    ] {
        passes(suite, &of(suite));
    }
}

fn passes(suite: &str, binary: &PathBuf) {
    let hosts = Hosts::one(&format!("provider-{suite}"));
    let mut command = on_verbs(&hosts);
    // One network namespace serves all tests of a suite, and some of them use the same multicast group.
    command
        .arg(binary)
        .args(["--test-threads=1", "--nocapture"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../longarm"));
    let output = command.output().expect("the suite starts");
    assert!(output.status.success(), "{suite} on the provider verbs: {}", said(&output));
    assert!(said(&output).contains(" 0 failed"), "{suite}: {}", said(&output));
    let told = String::from_utf8_lossy(&output.stdout);
    let told: BTreeSet<&str> = told.lines().filter_map(|line| line.strip_prefix("not there: ")).collect();
    assert_eq!(told, lacking(suite), "{suite} lacks more or less than docs/devices.md says");
}

/// The abilities that Longarm's own libraries lack in a suite, by its table in docs/devices.md.
fn lacking(suite: &str) -> BTreeSet<&'static str> {
    let page = include_str!("../../../docs/devices.md");
    let (_, table) = page.split_once(&format!("\n## {suite}\n")).expect("the suite's table");
    let rows = table.split("\n## ").next().unwrap_or_default().lines();
    let cells = rows.filter_map(|row| row.split(" | ").nth(1)?.strip_prefix("*not there:* "));
    cells.flat_map(|cell| cell.split("; ")).collect()
}

#[test]
fn every_operation_is_verified_and_measured() {
    let hosts = Hosts::one("provider-perf");
    let output = must_succeed(on_verbs(&hosts).args([LONGARM, "demo", "--verify-only"]));
    assert!(said(&output).contains("libibverbs"), "the provider is told: {}", said(&output));
    let perf = [LONGARM, "perf", "send", "--size", "8", "--rounds", "200", "--json"];
    let output = must_succeed(on_verbs(&hosts).args(perf));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["latency"]["samples"], 200);
    for arguments in [
        "write --size 65536 --seconds 0.1",
        "read --size 4096 --seconds 0.1 --qps 4",
        "fetch-add --rounds 200",
        "send --by-address --seconds 0.1 --mode stream",
        "send --by-address --rounds 200",
    ] {
        must_succeed(on_verbs(&hosts).args([LONGARM, "perf"]).args(arguments.split(' ')));
    }
}

/// The command `longarm run --` on a host, for programs that use the provider `verbs`.
fn on_verbs(hosts: &Hosts) -> Command {
    let mut command = hosts.command(Host::First, LONGARM);
    command.env("LONGARM_PROVIDER", "verbs").args(["run", "--"]);
    command
}

/// The test programs of the crate `longarm`, by name. Cargo builds those that are not up to date.
fn test_binaries() -> Vec<(String, PathBuf)> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../longarm/tests");
    let sources = std::fs::read_dir(sources).expect("the tests of longarm").map(|file| file.unwrap().path());
    let mut build = workspace_build();
    for source in sources.filter(|file| file.extension().is_some_and(|extension| extension == "rs")) {
        build.arg("--test").arg(source.file_stem().expect("a file has a name"));
    }
    let output = must_succeed(build.arg("--message-format=json"));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    told.lines().filter_map(|line| binary(&serde_json::from_str(line).ok()?)).collect()
}

fn binary(artifact: &Value) -> Option<(String, PathBuf)> {
    // Other crates have tests of the same names.
    let is_longarm = artifact["manifest_path"].as_str()?.ends_with("/crates/longarm/Cargo.toml");
    let is_test = is_longarm && artifact["target"]["kind"].as_array()?.iter().any(|kind| kind == "test");
    let name = artifact["target"]["name"].as_str()?;
    is_test.then_some((name.to_owned(), PathBuf::from(artifact["executable"].as_str()?)))
}

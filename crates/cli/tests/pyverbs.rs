//! rdma-core's own tests, which Debian ships with pyverbs, on Longarm.

mod support;

#[path = "programs/group.rs"]
mod group;
#[path = "pyverbs/skips.rs"]
mod skips;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use support::Hosts;

const SUITE: &str = "/usr/share/doc/rdma-core/tests";
const RUNNER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pyverbs/runner.py");
/// The time limits of one test and of all tests.
const SECONDS: &str = "30";
const PATIENCE: Duration = Duration::from_secs(300);

/// The runner's result of a test.
#[derive(Deserialize)]
struct TestResult {
    test: String,
    outcome: String,
    why: String,
}

/// Unpacks the suite; returns its directory.
fn suite(hosts: &Hosts) -> PathBuf {
    let directory = hosts.dir().join("suite/tests");
    std::fs::create_dir_all(&directory).unwrap();
    let files = std::fs::read_dir(SUITE).expect("python3-pyverbs: `cargo xtask packages` installs it");
    for file in files.map(|entry| entry.unwrap().path()) {
        unpack(&file, &directory);
    }
    hosts.dir().join("suite")
}

fn unpack(file: &Path, directory: &Path) {
    let name = file.file_name().unwrap().to_str().expect("a name in ASCII");
    match name.strip_suffix(".gz") {
        None => drop(std::fs::copy(file, directory.join(name)).unwrap()),
        Some(name) => {
            let unpacked = std::fs::File::create(directory.join(name)).unwrap();
            let status = Command::new("zcat").arg(file).stdout(unpacked).status().expect("zcat");
            assert!(status.success(), "{}", file.display());
        }
    }
}

fn verdicts(said: &str) -> Vec<TestResult> {
    let lines = said.lines().filter(|line| line.starts_with('{'));
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn is_known(why: &str) -> bool {
    skips::SKIPS.iter().any(|(says, _)| why.starts_with(says))
}

#[test]
fn the_suite_passes() {
    let hosts = Hosts::one("pyverbs");
    let mut command = hosts.longarm();
    command.args(["run", "--device", "la_lo", "--", "/usr/bin/python3", "-B", RUNNER]).arg(suite(&hosts));
    command.args([SECONDS, "--dev", "la_lo", "--gid", "0"]);
    let (status, said) = group::ended(&hosts, &mut command, PATIENCE);
    assert!(status.is_some_and(|status| status.success()), "the runner: {status:?}\n{said}");

    let verdicts = verdicts(&said);
    let wrong = told(&verdicts, |verdict| !["pass", "skip"].contains(&verdict.outcome.as_str()));
    assert!(wrong.is_empty(), "{wrong}");
    let unknown = told(&verdicts, |verdict| verdict.outcome == "skip" && !is_known(&verdict.why));
    assert!(unknown.is_empty(), "skipped for reasons that we do not know:\n{unknown}");
    let passed = verdicts.iter().filter(|verdict| verdict.outcome == "pass").count();
    assert!(passed >= skips::PASSES, "{passed} of {} passed", verdicts.len());
}

fn told(verdicts: &[TestResult], which: impl Fn(&TestResult) -> bool) -> String {
    let told = verdicts.iter().filter(|verdict| which(verdict));
    told.map(|verdict| format!("{}: {}: {}\n", verdict.test, verdict.outcome, verdict.why)).collect()
}

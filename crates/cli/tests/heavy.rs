//! Programs that take long to install: Ceph, and wheels of several hundred megabytes. `cargo xtask programs --heavy`
//! installs and runs them; `docs/programs.md` describes them. Each compares its data itself.

mod support;

#[path = "programs/group.rs"]
mod group;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use support::Hosts;

/// Longer than each of them takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

fn script(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/heavy")).join(name)
}

/// Runs a command to its end; its output must contain every line of `wanted`.
fn must_say(hosts: &Hosts, command: &mut Command, wanted: &[&str]) {
    let (status, said) = group::ended(hosts, command.current_dir(hosts.dir()), PATIENCE);
    assert!(status.is_some_and(|status| status.success()), "{command:?} ended with {status:?}:\n{said}");
    for line in wanted {
        assert!(said.lines().any(|said| said == *line), "no {line:?}:\n{said}");
    }
    println!("{said}");
}

/// Runs the same Python script as both sides, with the packages that `cargo xtask` has installed.
fn two_in_python(name: &str, environment: &[(&str, &str)]) {
    let hosts = Hosts::one(name);
    let python = std::env::var("LONGARM_HEAVY_PYTHON").expect("cargo xtask programs --heavy sets LONGARM_HEAVY_PYTHON");
    let mut command = hosts.longarm();
    command.args(["pair", "--wait", "1", "--server-args", "target", "--client-args", "initiator", "--", &python]);
    command.arg(script(&format!("{name}.py"))).envs(environment.iter().copied());
    must_say(&hosts, &mut command, &["server│ data compared", "client│ data compared"]);
}

#[test]
fn ceph() {
    let hosts = Hosts::one("heavy-ceph");
    let mut command = hosts.longarm();
    command.args(["run", "--", "sh"]).arg(script("ceph.sh"));
    must_say(&hosts, &mut command, &["all compared"]);
}

#[test]
fn nixl() {
    two_in_python("nixl_agents", &[("UCX_TLS", "rc_v,ud_v")]);
}

#[test]
fn mooncake() {
    two_in_python("mooncake_engines", &[]);
}

//! Verifies every operation between two hosts that a wire with MTU 1500 joins: over IPv4
//! and IPv6, and while the wire loses, duplicates, reorders, delays and corrupts packets.

mod support;

use support::{Host, Hosts, SECOND_V4, SECOND_V6};
use testkit::{must_succeed, said};

const FAULTS: &str = "seed=11,loss=0.05,dup=0.05,reorder=0.05";
const EVERYTHING: &str = "seed=12,loss=0.02,dup=0.02,reorder=0.02,delay=200us,corrupt=0.01,rnr=0.02";

/// Verifies the matrix between the hosts and returns what the command said.
fn verify(name: &str, address: &str, faults: Option<&str>) -> String {
    let hosts = Hosts::two(name);
    let (_server, at) = hosts.server(Host::Second, address, faults);
    let mut command = hosts.longarm();
    command.args(["demo", "--verify-only", "--connect", &at, "--dir"]).arg(hosts.dir().join("out"));
    if let Some(faults) = faults {
        command.env("LONGARM_FAULTS", faults);
    }
    said(&must_succeed(&mut command))
}

#[test]
fn everything_works_over_ipv4() {
    let text = verify("v4", SECOND_V4, None);
    assert_eq!(text.matches('✓').count(), 14, "{text}");
}

#[test]
fn everything_works_over_ipv6() {
    let text = verify("v6", SECOND_V6, None);
    assert_eq!(text.matches('✓').count(), 14, "{text}");
}

/// RC must not notice; UC and UD may lose messages, which the demo reports.
#[test]
fn reliable_connections_survive_loss_duplication_and_reordering() {
    for (name, faults) in [("faults", FAULTS), ("everything", EVERYTHING)] {
        let hosts = Hosts::two(name);
        let (_server, at) = hosts.server(Host::Second, SECOND_V4, Some(faults));
        let mut command = hosts.longarm();
        command
            .args(["demo", "--verify-only", "--reliable-only", "--connect", &at, "--dir"])
            .arg(hosts.dir().join("out"));
        let text = said(&must_succeed(command.env("LONGARM_FAULTS", faults)));
        assert_eq!(text.matches('✓').count(), 8, "{faults}:\n{text}");
    }
}

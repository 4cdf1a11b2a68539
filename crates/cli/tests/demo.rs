//! Tests of `longarm demo`, with the default options of a new user.

mod support;

use std::collections::HashSet;

use support::{Host, Hosts, tshark};
use testkit::{must_succeed, said};

#[test]
fn the_demo_verifies_everything_measures_and_leaves_a_capture_without_fault() {
    let hosts = Hosts::one("demo");
    let out = hosts.dir().join("out");
    let output = must_succeed(hosts.longarm().args(["demo", "--seconds", "0.1", "--dir"]).arg(&out));
    let text = said(&output);
    for expected in
        ["SEND with invalidate", "compare-and-swap", "TCP, no delay", "UDP, one sendto each", "RC SEND, depth 128"]
    {
        assert!(text.contains(expected), "{expected} is missing in:\n{text}");
    }
    assert_eq!(text.matches('✓').count(), 14, "8 operations on RC, 4 on UC, 2 on UD:\n{text}");
    assert!(!text.contains('✗'), "{text}");

    let page = std::fs::read_to_string(out.join("report.html")).expect("the report");
    assert_eq!(page.matches("<svg").count(), 3);

    let capture = out.join("demo.pcapng");
    let frames = support::capture::frames(&capture);
    assert!(frames.len() > 1000, "{} packets", frames.len());
    let wrong = frames.iter().filter(|frame| !support::capture::icrc_is_right(frame)).count();
    assert_eq!(wrong, 0, "wrong ICRCs among {}", frames.len());

    let protocols = tshark(&capture, &["-T", "fields", "-e", "_ws.col.Protocol"]);
    let kinds: HashSet<&str> = protocols.lines().collect();
    assert_eq!(kinds, HashSet::from(["RRoCE"]), "everything decodes as RoCEv2");
    assert_eq!(protocols.lines().count(), frames.len());
    assert_eq!(tshark(&capture, &["-Y", "_ws.malformed || _ws.expert.severity == error"]), "");
    let opcodes = tshark(&capture, &["-T", "fields", "-e", "infiniband.bth.opcode"]);
    let opcodes: HashSet<u8> = opcodes.lines().filter_map(|line| line.parse().ok()).collect();
    let expected: HashSet<u8> = (0..=20).chain([0x17]).chain(0x20..=0x2b).chain([0x64, 0x65]).collect();
    let missing: Vec<_> = expected.difference(&opcodes).collect();
    assert!(missing.is_empty(), "opcodes {missing:x?} never went over the wire");
}

#[test]
fn perf_prints_json_that_adds_up() {
    let hosts = Hosts::one("perf");
    let output =
        must_succeed(hosts.longarm().args(["perf", "write", "--size", "64,64K", "-D", "0.1", "-r", "500", "--json"]));
    let lines: Vec<serde_json::Value> =
        String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [latency, stream] = &lines[..] else { panic!("two results, not {}", lines.len()) };
    assert_eq!(latency["latency"]["samples"], 500);
    assert!(latency["latency"]["p50_ns"].as_u64() <= latency["latency"]["p99_ns"].as_u64());
    let (rate, bytes) = (stream["messages_per_second"].as_f64().unwrap(), stream["bytes_per_second"].as_f64().unwrap());
    assert!(rate > 0.0 && (bytes / rate - 65536.0).abs() < 1.0);
    assert_eq!(stream["lost_messages"], 0);
}

#[test]
fn queue_pairs_connect_by_address_too() {
    let hosts = Hosts::one("by-address");
    let by_address = |arguments: &str| {
        let output =
            must_succeed(hosts.longarm().arg("perf").args(arguments.split(' ')).args(["--by-address", "--json"]));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    assert_eq!(by_address("send --rounds 300")["latency"]["samples"], 300);
    let read = by_address("read --size 4096 --mode stream -D 0.1 --qps 3 --threads 2");
    assert!(read["messages_per_second"].as_f64().unwrap() > 0.0);
    let refused = hosts.longarm().args(["perf", "send", "--transport", "ud", "--by-address"]).output().unwrap();
    assert!(!refused.status.success() && said(&refused).contains("only RC queue pairs"), "{}", said(&refused));
}

#[test]
fn many_queue_pairs_share_one_process() {
    let hosts = Hosts::one("many");
    let output = must_succeed(
        hosts.longarm().args(["perf", "send", "-m", "stream", "-q", "2000", "-d", "8", "-D", "0.3", "--json"]),
    );
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(result["messages_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(result["lost_messages"], 0);
}

#[test]
fn wrong_arguments_get_an_answer_that_helps() {
    for (args, hint) in [
        (&["perf", "read", "--transport", "ud"][..], "UD has no READ"),
        (&["perf", "write", "--size", "4X"], "give bytes such as 64, 4K or 1M"),
        (&["perf", "send", "--transport", "ud", "--size", "8K"], "at most 4096 bytes"),
        (&["perf", "send", "--address", "192.0.2.77"], "192.0.2.77"),
    ] {
        let output = std::process::Command::new(support::LONGARM).args(args).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        assert!(said(&output).contains(hint), "{args:?} said:\n{}", said(&output));
    }
}

#[test]
fn a_limit_on_file_sizes_makes_it_slower_and_nothing_else() {
    let hosts = Hosts::one("file-limit");
    for limit in ["0", "1000"] {
        for operation in ["send", "write", "read", "fetch-add"] {
            let perf = [support::LONGARM, "perf", operation, "--size", "8", "-D", "0.1", "-r", "200"];
            let limited = format!("ulimit -f {limit}; exec \"$@\"");
            must_succeed(hosts.command(Host::First, "sh").args(["-c", &limited, "sh"]).args(perf));
        }
    }
}

//! Tests of `longarm rpc`: measurements with few calls, and calls by name to the small server.

mod support;

use std::process::{Output, Stdio};

use serde_json::Value;
use support::{Host, Hosts, LONGARM, Running, first_line};
use testkit::{must_succeed, said};

/// The JSON lines of a command.
fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

fn bench(hosts: &Hosts, arguments: &str) -> Vec<Value> {
    let mut command = hosts.longarm();
    command.args(["rpc", "bench", "--json", "--calls", "300", "--seconds", "5"]);
    lines(&must_succeed(command.args(arguments.split_whitespace())))
}

#[test]
fn every_way_is_measured_or_refused_with_a_reason() {
    let hosts = Hosts::one("rpc-ways");
    let all = bench(&hosts, "--way all --clients 1,3 --mode rate --depth 4");
    let mut measured = Vec::new();
    for way in ["ring", "herd", "datagram", "immediate", "fetch"] {
        let own: Vec<&Value> = all.iter().filter(|line| line["way"] == way).collect();
        assert_eq!(own.len(), 2, "{way}: {all:?}");
        if own[0]["kind"] == "refused" {
            assert!(own[0]["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{own:?}");
            continue;
        }
        for (line, clients) in own.iter().zip([1, 3]) {
            let calls = line["calls"].as_u64().unwrap_or_default();
            assert_eq!(
                (&line["kind"], &line["clients"], &line["failed"]),
                (&"calls".into(), &clients.into(), &0.into())
            );
            assert!(calls >= 290 && line["calls_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{line}");
            assert!(line["latency"]["samples"].as_u64().is_some_and(|samples| samples > 0), "{line}");
        }
        measured.push(way);
    }
    assert_eq!(measured.len(), 5, "{all:?}");
}

#[test]
fn latency_load_memory_and_replies_of_another_length_are_measured() {
    let hosts = Hosts::one("rpc-modes");
    let [one] = &bench(&hosts, "--way ring --together 10 --reply 64K")[..] else { panic!("one line") };
    assert_eq!((&one["mode"], &one["calls"], &one["path"]), (&"latency".into(), &300.into(), &"host".into()));
    assert_eq!((&one["latency"]["samples"], &one["reply_bytes"]), (&30.into(), &65_536.into()));
    let [p50, p99, p999] = ["p50_ns", "p99_ns", "p999_ns"].map(|name| one["latency"][name].as_u64().expect(name));
    assert!(0 < p50 && p50 <= p99 && p99 <= p999, "{one}");
    let [load] = &bench(&hosts, "--way immediate --mode load --load 30 --depth 8")[..] else { panic!("one line") };
    assert!(load["planned_per_second"].as_f64().is_some_and(|rate| rate > 0.0), "{load}");
    assert_eq!((&load["calls"], &load["latency"]["samples"]), (&load["latency"]["samples"], &load["calls"]));
    let both = bench(&hosts, "--way ring --idle 20");
    assert_eq!((both.len(), &both[1]["kind"], &both[1]["clients"]), (2, &"idle".into(), &20.into()));
    assert!(both[1]["server_bytes_per_client"].as_u64().is_some_and(|bytes| bytes > 0), "{both:?}");
}

#[test]
fn threads_share_clients_and_clients_share_a_region() {
    let hosts = Hosts::one("rpc-switches");
    let shared = bench(&hosts, "--way ring,datagram --mode rate --share 3 --clients 2 --depth 8 --one-region");
    for line in &shared {
        assert_eq!((&line["clients"], &line["threads"], &line["failed"]), (&2.into(), &6.into(), &0.into()), "{line}");
        assert!(line["calls"].as_u64().is_some_and(|calls| calls >= 300), "{line}");
    }
    assert_eq!(shared.len(), 2);
}

#[test]
fn packets_threads_and_plots() {
    let hosts = Hosts::one("rpc-plot");
    let file = hosts.dir().join("rate.svg");
    let mut command = hosts.longarm();
    command.args("rpc bench --way ring,immediate --mode rate --calls 200 -T 2 --clients 2,4".split_whitespace());
    let output = must_succeed(command.arg("--plot").arg(&file).env("LONGARM_LOCAL", "off"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("p99.9") && text.contains("immediate"), "{text}");
    let svg = std::fs::read_to_string(&file).expect("the plot");
    assert!(svg.contains("over the number of clients") && svg.contains("ring"), "{svg}");
}

#[test]
fn another_host_is_measured() {
    let hosts = Hosts::two("rpc-hosts");
    let mut command = hosts.command(Host::Second, LONGARM);
    let child = command.args(["rpc", "bench", "--listen", "10.93.0.2:0"]).stdout(Stdio::piped()).spawn();
    let mut server = Running(child.expect("the server starts"));
    let address = first_line(&mut server.0);
    let address = address.trim().strip_prefix("listening on ").expect("an address").to_string();
    let [line] = &bench(&hosts, &format!("--way ring --connect {address}"))[..] else { panic!("one line") };
    assert_eq!((&line["path"], &line["calls"]), (&"remote".into(), &300.into()));
}

#[test]
fn wrong_arguments_are_refused_with_a_reason() {
    let hosts = Hosts::one("rpc-wrong");
    for (arguments, reason) in [
        ("bench --way train", "train is no way; the ways are ring"),
        ("bench --size x", "--size x: give bytes"),
        ("bench --size 9M", "a message has at most"),
        ("bench --clients 0", "give numbers from 1 to 10000"),
        ("bench --depth 8", "latency is that of one call at a time"),
        ("bench --depth 65 --mode rate", "65 is not in 1..=64"),
        ("bench --size 2 --reply 64", "in 4 bytes"),
        ("bench --share 2", "--share is for the rate"),
        ("bench --share 4 --mode rate", "have 64 calls together"),
        ("bench --share 2 --threads 2 --mode rate", "leave out --threads"),
        ("bench --plot x.svg", "give several --clients or several --size"),
        ("bench --listen 127.0.0.1:0 --connect 127.0.0.1:1", "cannot be used with"),
        ("bench --connect 127.0.0.1:9 --way ring", "UNAVAILABLE"),
        ("call 127.0.0.1:9 demo.Echo/Say", "UNAVAILABLE"),
        ("call 127.0.0.1:9 demo.Echo/Say --timeout 0", "give seconds"),
        ("list", "HOST:PORT"),
    ] {
        let output = hosts.longarm().arg("rpc").args(arguments.split(' ')).output().expect("longarm");
        assert!(!output.status.success() && said(&output).contains(reason), "{arguments}: {}", said(&output));
    }
}

#[test]
fn methods_are_listed_described_and_called_by_name() {
    let hosts = Hosts::one("rpc-call");
    let child = hosts.longarm().args(["rpc", "serve", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn();
    let mut server = Running(child.expect("the server starts"));
    let line = first_line(&mut server.0);
    let address = line.trim().strip_prefix("listening on ").expect("an address").to_string();
    let ask = |arguments: &[&str]| {
        let (verb, rest) = arguments.split_first().expect("a verb");
        hosts.longarm().args(["rpc", verb, &address]).args(rest).output().expect("longarm")
    };
    let listed = ask(&["list"]);
    let text = said(&listed);
    assert!(text.contains("demo.Echo\n  demo.Echo/Say\n") && text.contains("longarm.rpc.Reflection"), "{text}");
    let described = said(&ask(&["describe", "demo.Echo/Say"]));
    assert!(described.contains("rpc Say(demo.SayRequest) returns (demo.SayReply);"), "{described}");
    assert!(described.contains("uint32 times = 2;"), "{described}");
    let reply = ask(&["call", "demo.Echo/Say", r#"{"text": "ab", "times": 3}"#, "--way", "ring"]);
    let reply: Value = serde_json::from_slice(&reply.stdout).unwrap_or_else(|e| panic!("{e}: {}", said(&reply)));
    assert_eq!(reply["text"], "ababab");
    for (arguments, reason) in [
        (&["call", "demo.Echo/Sing"][..], "NOT_FOUND"),
        (&["call", "demo.Echo/Say", "{\"nothing\": 1}"], "INVALID_ARGUMENT"),
        (&["call", "demo.Echo/Say", r#"{"text": "abc", "times": 1000000}"#], "longer than"),
        (&["call", "demo.Echo/Wait", r#"{"milliseconds": 60000}"#, "--timeout", "3"], "DEADLINE_EXCEEDED"),
        (&["describe", "demo.Nothing"], "NOT_FOUND"),
    ] {
        let output = ask(arguments);
        assert!(!output.status.success() && said(&output).contains(reason), "{arguments:?}: {}", said(&output));
    }
}

//! Tests of `longarm up`, `down`, `status` and `devices`.

mod support;

use std::time::Duration;

use support::{Host, Hosts};
use testkit::{must_succeed, said};

#[test]
fn the_hub_comes_tells_and_goes() {
    let hosts = Hosts::one("hub");
    let before = hosts.longarm().args(["status"]).output().unwrap();
    assert!(!before.status.success() && said(&before).contains("no Longarm hub is running"), "{}", said(&before));
    must_succeed(hosts.longarm().args(["up"]));
    assert!(said(&must_succeed(hosts.longarm().args(["up"]))).contains("already"));
    let (_server, _) = hosts.server(Host::First, "127.0.0.1", None);
    let text = said(&must_succeed(hosts.longarm().args(["status"])));
    assert!(text.contains("slots"), "{text}");
    let devices = must_succeed(hosts.longarm().args(["devices", "--json"]));
    let devices: serde_json::Value = serde_json::from_slice(&devices.stdout).expect("JSON");
    assert_eq!(devices[0]["interface"], "lo");
    assert_eq!(devices[0]["active_mtu_bytes"], 4096);
    must_succeed(hosts.longarm().args(["down"]));
    std::thread::sleep(Duration::from_millis(100));
    assert!(!hosts.longarm().args(["status"]).output().unwrap().status.success());
}

#[test]
fn a_taken_port_is_explained() {
    let hosts = Hosts::one("taken");
    let script = "import socket,time; s=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM); s.bind(('::',4791)); print('bound',flush=True); time.sleep(60)";
    let mut holder = hosts.command(Host::First, "python3");
    let mut holder =
        support::Running(holder.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap());
    let mut byte = [0];
    std::io::Read::read_exact(holder.0.stdout.as_mut().unwrap(), &mut byte).unwrap();
    let output = hosts.longarm().args(["perf", "send"]).output().unwrap();
    assert!(!output.status.success());
    assert!(said(&output).contains("4791"), "{}", said(&output));
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let hosts = Hosts::one("reader");
    must_succeed(hosts.longarm().args(["up"]));
    for arguments in [&["status", "--all"][..], &["status", "--json"], &["devices"], &["up"], &["down"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output =
            hosts.longarm().args(arguments).stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
        // The status that a shell shows for commands that SIGPIPE ends.
        assert_eq!(output.status.code(), Some(141), "{arguments:?}: {}", said(&output));
        assert_eq!(said(&output), "", "{arguments:?}");
    }
}

#[test]
fn a_limit_on_file_sizes_does_not_end_the_hub() {
    let hosts = Hosts::one("filesize");
    let mut up = hosts.command(Host::First, "sh");
    must_succeed(up.args(["-c", "ulimit -f 0; exec \"$0\" up", support::LONGARM]));
    must_succeed(hosts.longarm().args(["perf", "send", "--size", "64", "-D", "0.1"]));
    must_succeed(hosts.longarm().args(["status", "--all"]));
    must_succeed(hosts.longarm().args(["down"]));
}

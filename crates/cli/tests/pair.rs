//! Tests of `longarm pair`: the outputs, statuses and ends of both sides.

mod support;

use std::process::{Output, Stdio};
use std::time::Duration;

use support::{Hosts, Running, exit_of};
use testkit::{must_succeed, said};

/// Runs a shell script as both sides: `$1` is empty for the server.
fn pair(hosts: &Hosts, options: &[&str], script: &str) -> Output {
    let mut command = hosts.longarm();
    command.arg("pair").args(options).args(["--", "sh", "-c", script, "side"]).output().expect("the command starts")
}

#[test]
fn both_sides_are_shown_by_name() {
    let hosts = Hosts::one("pair-shown");
    let output = pair(&hosts, &["--wait", "0"], "echo I am \"${1:-first}\"; echo and warn >&2; sleep 1");
    assert!(output.status.success(), "{}", said(&output));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    for line in ["server│ I am first", "client│ I am 127.0.0.1"] {
        assert!(out.lines().any(|own| own == line), "{line}: {out}");
    }
    for line in ["server│ and warn", "client│ and warn"] {
        assert!(err.lines().any(|own| own == line), "{line}: {err}");
    }
}

#[test]
fn the_status_is_the_clients_or_the_servers_if_that_fails() {
    let hosts = Hosts::one("pair-status");
    let code = |script: &str| pair(&hosts, &["--wait", "0.2"], script).status.code();
    assert_eq!(code("sleep 1; test -z \"$1\" || exit 4"), Some(4));
    assert_eq!(code("sleep 1; test -n \"$1\" || exit 3"), Some(3));
    assert_eq!(code("sleep 1; test -n \"$1\" && exit 4; exit 3"), Some(4));
    assert_eq!(code("test -n \"$1\" || exit 9"), Some(9), "a server that ends at once");
}

#[test]
fn a_server_that_goes_on_is_ended() {
    let hosts = Hosts::one("pair-ended");
    let output = pair(&hosts, &["--wait", "0.1"], "test -n \"$1\" && exit 2; sleep 600");
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("the server keeps running"), "{}", said(&output));
    let late = pair(&hosts, &["--wait", "0.1", "--timeout", "0.5"], "sleep 600");
    assert_eq!(late.status.code(), Some(124), "{}", said(&late));
}

/// The client starts as soon as the server listens, long before `--wait` is over.
#[test]
fn the_client_waits_until_the_server_listens() {
    let hosts = Hosts::one("pair-listens");
    let python = "\
import socket, sys, time
if len(sys.argv) > 1:
    socket.create_connection((sys.argv[1], 7999)).sendall(b'hello')
else:
    time.sleep(0.5)
    listener = socket.create_server(('127.0.0.1', 7999))
    print('heard', listener.accept()[0].recv(9).decode())
";
    let mut command = hosts.longarm();
    command.args(["pair", "--wait", "600", "--", "python3", "-c", python]);
    let said = said(&must_succeed(&mut command));
    assert!(said.contains("server│ heard hello"), "{said}");
}

#[test]
fn arguments_of_one_side_and_the_place_of_the_address() {
    let hosts = Hosts::one("pair-arguments");
    let mut command = hosts.longarm();
    command.args([
        "pair",
        "--wait",
        "0",
        "--address",
        "::1",
        "--server-args=-s 'a b'",
        "--client-args",
        "-c {server} -z",
    ]);
    let said = said(&must_succeed(command.args(["--", "sh", "-c", "printf '[%s]' \"$@\"; sleep 1", "sh", "x"])));
    assert!(said.contains("server│ [x][-s][a b]"), "{said}");
    assert!(said.contains("client│ [x][-c][::1][-z]"), "{said}");
}

#[test]
fn both_end_with_the_command() {
    let hosts = Hosts::one("pair-killed");
    let script = format!("test -n \"$1\" && touch {}; exec sleep 613", hosts.dir().join("started").display());
    let mut command = hosts.longarm();
    command.args(["pair", "--wait", "0", "--", "sh", "-c", &script, "side"]).stdout(Stdio::null());
    let mut pair = Running(command.spawn().expect("the command starts"));
    while !hosts.dir().join("started").exists() {
        assert!(pair.0.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(Duration::from_millis(10));
    }
    let sides = children(pair.0.id());
    assert_eq!(sides.len(), 2);
    pair.kill();
    for side in sides {
        testkit::wait_until("the side ends", || !is_alive(side));
    }
}

fn children(parent: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).expect("a process");
    text.split_whitespace().map(|pid| pid.parse().expect("a process id")).collect()
}

fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// No packet may be lost here: the client exits without waiting for the end of the server,
/// and no process would answer the server's retransmissions.
#[test]
fn a_real_program_talks_to_itself() {
    let hosts = Hosts::one("pair-pingpong");
    for options in [&["--faults", "seed=7,dup=0.2"][..], &[]] {
        let mut command = hosts.longarm();
        command.arg("pair").args(options);
        command.args(["--timeout", "60", "--", "ibv_rc_pingpong", "-g", "0", "-n", "200", "-c"]);
        let said = said(&must_succeed(&mut command));
        assert_eq!(said.matches("200 iters").count(), 2, "{said}");
    }
}

#[test]
fn a_real_program_talks_from_host_to_host() {
    let hosts = Hosts::one("pair-hosts");
    let mut command = hosts.longarm();
    command.args([
        "pair",
        "--namespaces",
        "--timeout",
        "60",
        "--",
        "ibv_rc_pingpong",
        "-d",
        "la_wire0",
        "-g",
        "0",
        "-n",
        "100",
    ]);
    let mut child = Running(command.stdout(Stdio::piped()).spawn().expect("the command starts"));
    let status = exit_of(&mut child.0);
    let mut said = String::new();
    std::io::Read::read_to_string(child.0.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert!(status.success(), "{status}: {said}");
    assert!(said.contains("GID ::ffff:192.0.2.1") && said.contains("GID ::ffff:192.0.2.2"), "{said}");
}

//! The path of data between two processes: the shm path if they have the same user and host, else the
//! wire path. No other process gets a mapping.

mod support;

use std::path::Path;
use std::process::Command;

use support::{Host, Hosts, Running, SECOND_V4};
use testkit::{is_root, must_succeed, wait_until};

/// User and group "nobody": root runs programs as this other user.
const NOBODY: &str = "65534";

/// A client of the hub, as its counters show it.
struct Seen(serde_json::Value);

impl Seen {
    fn get(&self, name: &str) -> u64 {
        self.0["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name}: {}", self.0))
    }
}

/// The hub's status of a process.
fn seen(mut status: Command, pid: u32) -> Option<Seen> {
    let output = status.args(["status", "--json"]).output().expect("the command starts");
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let client = status["clients"].as_array()?.iter().find(|client| client["pid"] == pid)?;
    Some(Seen(client.clone()))
}

/// Mappings of a process whose names contain `word`.
fn mappings(pid: u32, word: &str) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("a process of ours");
    maps.lines().filter(|line| line.contains(word)).count()
}

/// A client of `longarm perf` that runs until it is dropped.
fn streams(mut command: Command, op: &str, at: &str) -> Running {
    command.args(["perf", op, "-m", "stream", "-D", "60", "--connect", at]).stdout(std::process::Stdio::null());
    Running(command.spawn().expect("the client starts"))
}

/// Checks that both processes send packets, and that neither has a shm link or an export of another process.
fn use_the_wire(both: &[(&dyn Fn() -> Command, u32)]) {
    for (status, pid) in both {
        wait_until("packets leave", || seen(status(), *pid).is_some_and(|seen| seen.get("tx_packets") > 1000));
        let seen = seen(status(), *pid).expect("it goes on");
        assert_eq!(["shm_links", "shm_frames", "shm_writes"].map(|name| seen.get(name)), [0; 3], "{}", seen.0);
        assert_eq!(mappings(*pid, "longarm-link"), 0);
        assert!(mappings(*pid, "longarm-export") <= 1, "it has that of another process");
    }
}

#[test]
fn peers_on_this_host_share_memory_and_send_no_packets() {
    let hosts = Hosts::one("shm");
    for (op, counter) in [("write", "shm_writes"), ("read", "shm_reads"), ("fetch-add", "shm_atomics")] {
        let (server, at) = hosts.server(Host::First, "127.0.0.1", None);
        let client = streams(hosts.longarm(), op, &at);
        let pid = client.0.id();
        wait_until("messages pass", || seen(hosts.longarm(), pid).is_some_and(|seen| seen.get(counter) > 1000));
        let seen = seen(hosts.longarm(), pid).expect("it goes on");
        assert_eq!(["shm_links", "tx_packets"].map(|name| seen.get(name)), [1, 0], "{}", seen.0);
        for pid in [pid, server.0.id()] {
            assert_eq!([mappings(pid, "longarm-link"), mappings(pid, "longarm-export")], [1, 2]);
        }
        let text = testkit::said(&must_succeed(hosts.longarm().args(["status"])));
        assert!(text.contains(counter), "{text}");
    }
}

#[test]
fn either_of_two_peers_on_this_host_may_force_packets() {
    let hosts = Hosts::one("switch");
    for of_client in [true, false] {
        let mut server = hosts.command(Host::First, support::LONGARM);
        let mut client = hosts.longarm();
        if of_client { &mut client } else { &mut server }.env("LONGARM_LOCAL", "off");
        let (server, at) = hosts.server_by(server, "127.0.0.1");
        let client = streams(client, "send", &at);
        let status = || hosts.longarm();
        use_the_wire(&[(&status, client.0.id()), (&status, server.0.id())]);
    }
}

#[test]
fn the_command_forces_packets() {
    for (option, packets) in [("--wire", true), ("--verbose", false)] {
        // A host for each option: the hub may still list processes that have just been killed.
        let hosts = Hosts::one(option.trim_start_matches('-'));
        let mut pair = hosts.longarm();
        pair.args(["pair", option, "--", "ib_write_bw", "-D", "30"]).stdout(std::process::Stdio::null());
        let _pair = Running(pair.stderr(std::process::Stdio::null()).spawn().expect("the command starts"));
        let goes = || {
            let output = hosts.longarm().args(["status", "--json"]).output().expect("the command starts");
            let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let clients: Vec<Seen> = status["clients"].as_array().into_iter().flatten().cloned().map(Seen).collect();
            let sum = |name| clients.iter().map(|client| client.get(name)).sum::<u64>();
            let (wire, shared) = (sum("tx_packets"), sum("shm_writes"));
            assert!(if packets { shared == 0 } else { wire == 0 }, "{option}: {wire} packets, {shared} writes");
            wire + shared > 1000
        };
        wait_until("messages go on", goes);
    }
}

#[test]
fn a_process_in_another_namespace_gets_packets() {
    let hosts = Hosts::two("namespaces");
    let (server, at) = hosts.server(Host::Second, SECOND_V4, None);
    let client = streams(hosts.longarm(), "write", &at);
    let (first, second) = (|| hosts.longarm(), || hosts.command(Host::Second, support::LONGARM));
    use_the_wire(&[(&first, client.0.id()), (&second, server.0.id())]);
}

/// Only root can act as another user.
#[test]
fn another_user_gets_packets() {
    if !is_root() {
        return println!("left out: only root can act as another user");
    }
    let hosts = Hosts::two("user");
    let longarm = public_copy(hosts.dir());
    let place = hosts.dir().join("public/run");
    let as_nobody = || {
        let mut command = hosts.command(Host::Second, "setpriv");
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&longarm);
        command.env("LONGARM_RUNTIME_DIR", &place);
        command
    };
    let (server, at) = hosts.server_by(as_nobody(), SECOND_V4);
    let client = streams(hosts.longarm(), "write", &at);
    let first = || hosts.longarm();
    use_the_wire(&[(&first, client.0.id()), (&as_nobody, server.0.id())]);
    // Another user who knows the runtime directory of the first still cannot attach to its hub.
    let dir = hosts.dir().join("run");
    let mut curious = hosts.command(Host::First, "setpriv");
    curious.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&longarm);
    let output = curious.args(["status"]).env("LONGARM_RUNTIME_DIR", dir).output().expect("the command starts");
    assert!(!output.status.success(), "{}", testkit::said(&output));
}

/// Copies the command to a directory where all users can execute and write.
fn public_copy(dir: &Path) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let public = dir.join("public");
    std::fs::create_dir_all(&public).expect("a directory of the test");
    std::fs::set_permissions(&public, std::fs::Permissions::from_mode(0o1777)).expect("a directory of the test");
    testkit::copy_program(support::LONGARM, public.join("longarm"));
    public.join("longarm")
}

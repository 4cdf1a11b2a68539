//! kill -9 at various moments of a connection's life, with unmodified programs: the surviving side
//! notices in bounded time, and nothing is left at the hub.

mod support;

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use support::{Hosts, Running, exit_of};
use testkit::{must_succeed, wait_until};

struct Scene {
    hosts: Hosts,
}

impl Scene {
    fn rping(&self, arguments: &[&str]) -> Running {
        let mut command: Command = self.hosts.longarm();
        command.args(["run", "--", "rping"]).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().expect("rping, of rdmacm-utils"))
    }

    /// The hub's status; null while there is no hub.
    fn status(&self) -> serde_json::Value {
        let output = self.hosts.longarm().args(["status", "--json"]).output().expect("the command starts");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Whether a program listens for connections.
    fn listens(&self) -> bool {
        let status = self.status();
        let managers = status["managers"].as_array().into_iter().flatten();
        managers.flat_map(|m| m["ports"].as_array().into_iter().flatten()).any(|port| port["listening"] == true)
    }

    /// Starts a server that listens, and a client; returns `ms` milliseconds later.
    fn start(&self, ms: u64) -> (Running, Running) {
        let server = self.rping(&["-s", "-a", "127.0.0.1"]);
        wait_until("it listens", || self.listens());
        let client = self.rping(&["-c", "-a", "127.0.0.1"]);
        sleep(Duration::from_millis(ms));
        (server, client)
    }

    /// Whether no port and no closing message is left at the hub.
    fn is_empty(&self) -> bool {
        self.status()["managers"].as_array().is_some_and(Vec::is_empty)
    }
}

/// Moments at which the client starts, connects and sends.
const MOMENTS_MS: [u64; 8] = [0, 20, 40, 60, 90, 130, 200, 500];

#[test]
fn a_killed_program_s_peer_ends() {
    let scene = Scene { hosts: Hosts::one("crash-connections") };
    must_succeed(scene.hosts.longarm().args(["up"]));
    for ms in MOMENTS_MS {
        let (mut server, mut client) = scene.start(ms);
        server.kill();
        exit_of(&mut client.0);
        wait_until("the hub has no connections", || scene.is_empty());
    }
    for ms in MOMENTS_MS {
        let (mut server, mut client) = scene.start(ms);
        client.kill();
        // A server that never received a message of the client keeps running.
        sleep(Duration::from_millis(300));
        if server.0.try_wait().expect("a child of ours").is_none() && ms < 200 {
            server.kill();
        }
        exit_of(&mut server.0);
        wait_until("the hub has no connections", || scene.is_empty());
    }
    must_succeed(scene.hosts.longarm().args(["down"]));
}

#[test]
fn a_killed_hub_is_replaced_while_programs_connect_and_send() {
    let scene = Scene { hosts: Hosts::one("crash-hub-connections") };
    for ms in MOMENTS_MS {
        let (mut server, mut client) = scene.start(ms);
        let hub = scene.status()["pid"].as_u64().expect("a hub").to_string();
        must_succeed(Command::new("kill").args(["-9", &hub]));
        sleep(Duration::from_millis(100));
        for side in [&mut server, &mut client] {
            assert!(side.0.try_wait().expect("a child of ours").is_none(), "after {ms} ms a side ended with the hub");
        }
        // The server still has the port.
        wait_until("another hub serves", || {
            scene.status()["pid"].as_u64().is_some_and(|pid| pid.to_string() != hub) && scene.listens()
        });
        client.kill();
        sleep(Duration::from_millis(300));
        server.kill();
        wait_until("the hub has no connections", || scene.is_empty());
    }
    must_succeed(scene.hosts.longarm().args(["down", "--force"]));
}

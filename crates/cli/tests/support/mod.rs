//! Support for tests of the command: private network namespaces, and the command in them.
#![allow(dead_code)] // Each test file uses its own part.

pub(crate) mod capture;

use std::path::Path;
use std::process::{Child, Command, Stdio};

use testkit::{TestDir, in_new_netns, is_root, said, wait_for};

/// The command under test.
pub(crate) const LONGARM: &str = env!("CARGO_BIN_EXE_longarm");

/// One or two hosts in private network namespaces, joined by a veth pair
/// with MTU 1500. Dropping the value ends them.
pub(crate) struct Hosts {
    holder: Child,
    second: Option<u32>,
    dir: TestDir,
}

/// One of the two hosts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    First,
    Second,
}

pub(crate) const FIRST_V4: &str = "10.93.0.1";
pub(crate) const SECOND_V4: &str = "10.93.0.2";
pub(crate) const SECOND_V6: &str = "fd93::2";

/// A script that makes the second host and the wire, prints "ready" and waits to be killed.
const TWO: &str = "\
    ip link set lo up; sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 2>/dev/null
    unshare --net sleep 1000 & second=$!
    for i in $(seq 100); do [ \"$(readlink /proc/$second/ns/net)\" != \"$(readlink /proc/self/ns/net)\" ] && break; sleep 0.02; done
    on_second() { nsenter --target $second --net \"$@\"; }
    ip link add va type veth peer name vb netns $second
    ip addr add 10.93.0.1/24 dev va; ip addr add fd93::1/64 dev va nodad; ip link set va up
    on_second ip addr add 10.93.0.2/24 dev vb; on_second ip addr add fd93::2/64 dev vb nodad
    on_second ip link set vb up; on_second ip link set lo up
    echo ready $second; exec sleep 1000";

impl Hosts {
    /// Makes a host with loop-back only.
    pub(crate) fn one(name: &str) -> Hosts {
        Hosts::start(name, "ip link set lo up; echo ready; exec sleep 1000")
    }

    /// Makes two hosts.
    pub(crate) fn two(name: &str) -> Hosts {
        Hosts::start(name, TWO)
    }

    fn start(name: &str, script: &str) -> Hosts {
        let dir = TestDir::new(&format!("test-{name}"));
        let mut holder =
            in_new_netns().args(["sh", "-c", script]).stdout(Stdio::piped()).spawn().expect("unshare, from util-linux");
        let line = first_line(&mut holder);
        assert!(line.starts_with("ready"), "no network namespace could be made: {line:?}");
        let second = line.split_whitespace().nth(1).map(|pid| pid.parse().expect("a process id"));
        Hosts { holder, second, dir }
    }

    /// The test's own directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Runs a program on a host; its Longarm runtime directory is the test's own.
    pub(crate) fn command(&self, host: Host, program: &str) -> Command {
        let target = match host {
            Host::First => self.holder.id(),
            Host::Second => self.second.expect("a second host"),
        };
        let mut command = Command::new("nsenter");
        command.args(["--target", &target.to_string(), "--net"]);
        if !is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg(program).env("LONGARM_RUNTIME_DIR", self.dir.runtime_dir()).stdin(Stdio::null());
        command
    }

    /// The command under test on the first host.
    pub(crate) fn longarm(&self) -> Command {
        self.command(Host::First, LONGARM)
    }

    /// Starts a server on a host and waits until it listens; returns it with its address.
    pub(crate) fn server(&self, host: Host, address: &str, faults: Option<&str>) -> (Running, String) {
        let mut command = self.command(host, LONGARM);
        if let Some(faults) = faults {
            command.env("LONGARM_FAULTS", faults);
        }
        self.server_by(command, address)
    }

    /// Starts a server by a command that runs `longarm`, as in [`Hosts::server`].
    pub(crate) fn server_by(&self, mut command: Command, address: &str) -> (Running, String) {
        let bind = if address.contains(':') { format!("[{address}]:0") } else { format!("{address}:0") };
        command.args(["perf-server", "--once", "--bind", &bind]).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let line = first_line(&mut child);
        let address = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("the server said {line:?}"));
        (Running(child), address.to_string())
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if let Some(second) = self.second {
            let _ = Command::new("kill").arg(second.to_string()).status();
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A process; dropping the value ends it.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Kills it with SIGKILL, like the kernel's out-of-memory killer.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("the process can be killed");
        self.0.wait().expect("the process can be waited for");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a child ends.
#[track_caller]
pub(crate) fn exit_of(child: &mut Child) -> std::process::ExitStatus {
    wait_for("the process ends", || child.try_wait().expect("a child of ours"))
}

/// A program from a Debian package that `cargo xtask packages` installs.
pub(crate) fn tshark(capture: &Path, args: &[&str]) -> String {
    let output = Command::new("tshark").arg("-r").arg(capture).args(args).output();
    let output = output.expect("tshark: `cargo xtask packages` installs it");
    assert!(output.status.success(), "tshark: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Reads one line without taking more from the pipe.
pub(crate) fn first_line(child: &mut Child) -> String {
    use std::io::Read;
    let stdout = child.stdout.as_mut().expect("a pipe");
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stdout.read(&mut byte).is_ok_and(|n| n == 1) && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).into_owned()
}

//! Shared code of the tests with real processes: a directory for the hub, client processes, and
//! packets.
//!
//! A client process is the test binary, executed once more for the test named `role`, which
//! does nothing else.
#![allow(unreachable_pub, reason = "a module of a test binary")]
#![allow(dead_code, unused_imports, reason = "each test binary uses its part")]

pub mod mads;
mod manager_role;
mod process;
mod raw;
mod role;
pub mod sharing;

pub use process::Client;
pub use raw::{Raw, listen, random_bytes, socket_path};
pub use role::play_role_if_asked;

use longarm_hub::client::{self, AttachOptions};
use longarm_hub::{HubStatus, RUNTIME_DIR_VARIABLE};
use rustix::process::{Pid, Signal};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};
use testkit::{TestDir, wait_until};

/// A private directory for a hub, and the end of the hub with the test.
pub struct TestHub(TestDir);

impl TestHub {
    /// A directory of this test's own.
    pub fn new(name: &str) -> TestHub {
        TestHub(TestDir::new(&format!("hub-{name}")))
    }

    /// The hub's directory.
    pub fn dir(&self) -> PathBuf {
        self.0.runtime_dir()
    }

    /// Options to attach to this hub.
    pub fn options(&self) -> AttachOptions {
        AttachOptions { runtime_dir: Some(self.dir()), ..AttachOptions::default() }
    }

    /// The hub's state.
    pub fn status(&self) -> HubStatus {
        client::status(Some(&self.dir())).unwrap()
    }

    /// Kills the hub, and returns when it is gone. Returns its process number.
    pub fn kill_hub(&self) -> u32 {
        let pid = self.status().pid;
        kill(pid);
        wait_until("the hub is gone", || !is_alive(pid));
        pid
    }

    /// A command with this directory in its environment.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env(RUNTIME_DIR_VARIABLE, self.dir());
        command
    }
}

impl Drop for TestHub {
    fn drop(&mut self) {
        // The hub may have exited.
        let _ = client::shutdown(Some(&self.dir()), true);
        if thread::panicking() {
            let log = fs::read_to_string(self.dir().join("hub.log")).unwrap_or_default();
            eprintln!("--- the hub's log:\n{log}---");
        }
    }
}

/// SIGKILL.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// SIGSTOP; returns when the process has stopped.
pub fn stop(pid: u32) {
    let stopped = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    signal(pid, Signal::STOP);
    wait_until("it has stopped", stopped);
}

/// SIGCONT.
pub fn resume(pid: u32) {
    signal(pid, Signal::CONT);
}

fn signal(pid: u32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

/// Whether a process runs (and is not a zombie).
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// Number of descriptors that a process has open.
pub fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// The part of a packet that the kernel's filter reads. `mark` identifies it.
pub fn packet(slot: u8, mark: u8) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    bytes[5] = slot;
    bytes[7] = 17;
    bytes[12] = mark;
    bytes
}

/// Sends a packet to a slot of this network namespace.
pub fn send_to_slot(slot: u8, mark: u8) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&packet(slot, mark), "127.0.0.1:4791").unwrap();
}

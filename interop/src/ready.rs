//! Detects, on either side, that a server is ready for its client.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::guest::Guest;
use crate::local::Local;
use crate::namespace;

/// The longest time that a server may take to become ready.
const PATIENCE: Duration = Duration::from_secs(15);
const NAP: Duration = Duration::from_millis(20);

/// The sign that a server is ready.
#[derive(Clone, Copy)]
pub(crate) enum Listens {
    /// It listens at a TCP port.
    Tcp(u16),
    /// It listens at any port of the connection manager.
    Rdma,
    /// It has joined a multicast group, which `ip maddr` shows as this text.
    Group(&'static str),
}

impl Listens {
    /// Waits for a server in the guest. If it does not become ready, the client reports it.
    pub(crate) fn wait_in_guest(self, guest: &mut Guest) -> Result<(), String> {
        let is_ready = match self {
            Listens::Tcp(port) => format!("grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6"),
            Listens::Rdma => "rdma resource show cm_id | grep -v :4420 | grep -q LISTEN".to_owned(),
            Listens::Group(shown) => format!("ip maddr show dev eth0 | grep -q '{shown}'"),
        };
        let job = guest.start(&format!("until {is_ready}; do sleep 0.02; done"), PATIENCE)?;
        guest.wait(job, PATIENCE * 2).map(drop)
    }

    /// Waits for a server on Longarm's side.
    pub(crate) fn wait(self, local: &Local) -> bool {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.is_ready(local) {
                return true;
            }
            std::thread::sleep(NAP);
        }
        false
    }

    fn is_ready(self, local: &Local) -> bool {
        match self {
            Listens::Tcp(port) => listens_for_tcp(port),
            Listens::Rdma => local.listens_at_cm(),
            Listens::Group(shown) => {
                let groups = Command::new("ip").args(["maddr", "show", "dev", namespace::LINK]).output();
                groups.is_ok_and(|groups| String::from_utf8_lossy(&groups.stdout).contains(shown))
            }
        }
    }
}

/// Whether a process in this namespace listens at a TCP port.
fn listens_for_tcp(port: u16) -> bool {
    let pattern = format!(":{port:04X} ");
    let tables =
        ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(|file| std::fs::read_to_string(file).unwrap_or_default());
    // local address, remote address, state: 0A is LISTEN
    tables.iter().flat_map(|table| table.lines()).any(|line| line.contains(&pattern) && line.contains(" 0A "))
}

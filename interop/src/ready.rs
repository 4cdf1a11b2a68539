//! How one sees, on either side, that a server is ready for its client.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::guest::Guest;
use crate::local::Local;
use crate::namespace;

/// How long a server may take.
const PATIENCE: Duration = Duration::from_secs(15);
const NAP: Duration = Duration::from_millis(20);

/// What a server does when it is ready.
#[derive(Clone, Copy)]
pub(crate) enum Listens {
    /// It listens at a TCP port.
    Tcp(u16),
    /// It listens at any port of the connection manager.
    Rdma,
    /// It has joined a multicast group, of which `ip maddr` shows this.
    Group(&'static str),
}

impl Listens {
    /// Waits for a server in the guest; if it is not ready, the client will tell.
    pub(crate) fn wait_in_guest(self, guest: &mut Guest) -> Result<(), String> {
        let is_ready = match self {
            Listens::Tcp(port) => format!("grep -q ':{port:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6"),
            Listens::Rdma => "rdma resource show cm_id | grep -v :4420 | grep -q LISTEN".to_owned(),
            Listens::Group(shown) => format!("ip maddr show dev eth0 | grep -q '{shown}'"),
        };
        let job = guest.start(&format!("until {is_ready}; do sleep 0.02; done"), PATIENCE)?;
        guest.wait(job, PATIENCE * 2).map(drop)
    }

    /// Waits for a server on our side.
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
            Listens::Rdma => local.takes_connections(),
            Listens::Group(shown) => {
                let groups = Command::new("ip").args(["maddr", "show", "dev", namespace::LINK]).output();
                groups.is_ok_and(|groups| String::from_utf8_lossy(&groups.stdout).contains(shown))
            }
        }
    }
}

/// Whether somebody in this namespace listens at a TCP port.
fn listens_for_tcp(port: u16) -> bool {
    let pattern = format!(":{port:04X} ");
    let tables =
        ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(|file| std::fs::read_to_string(file).unwrap_or_default());
    // local address, remote address, state: 0A is LISTEN
    tables.iter().flat_map(|table| table.lines()).any(|line| line.contains(&pattern) && line.contains(" 0A "))
}

//! One program on both sides of the wire, once.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::capture::Capture;
use crate::case::{Family, Role};
use crate::guest::{Guest, Job};
use crate::local::{self, Local, Program};
use crate::namespace;

/// Longer than any program takes, emulated, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a side may go on after the other. (rxe takes a retry count of 7 as endless.)
const FAREWELL: Duration = Duration::from_secs(8);
/// How long one look at the guest waits.
const NAP: Duration = Duration::from_millis(10);
/// Where the programs meet to tell each other their queue pairs.
const PORT: u16 = 18515;

/// Both sides of the wire.
pub(crate) struct Wire {
    pub(crate) local: Local,
    pub(crate) guest: Guest,
    /// Our device and the indices of its IPv4 and IPv6 GIDs, and the guest's.
    pub(crate) ours: Place,
    pub(crate) theirs: Place,
    /// The link's, in bytes.
    pub(crate) mtu: u32,
    /// Where captures of all cases go, if they are wanted.
    pub(crate) captures: Option<PathBuf>,
}

/// A device and its addresses.
pub(crate) struct Place {
    pub(crate) device: String,
    pub(crate) v4: usize,
    pub(crate) v6: usize,
}

/// The addresses on the wire, ours and the guest's.
pub(crate) const OUR_V4: &str = "10.77.0.1";
pub(crate) const OUR_V6: &str = "fd77::1";
pub(crate) const THEIR_V4: &str = "10.77.0.11";
pub(crate) const THEIR_V6: &str = "fd77::b";

/// What became of a program on both sides. A status of `None`: it went on, and was ended.
pub(crate) struct Outcome {
    pub(crate) client: (Option<i32>, String),
    pub(crate) server: (Option<i32>, String),
}

/// What is run on both sides; `client` lacks the server's address.
pub(crate) struct Exchange<'a> {
    pub(crate) ours: String,
    pub(crate) theirs: String,
    pub(crate) role: Role,
    pub(crate) faults: Option<&'a str>,
}

impl Place {
    /// Finds the addresses in what `ibv_devinfo -v` says.
    pub(crate) fn new(device: &str, devinfo: &str, v4: &str, v6: &str) -> Result<Place, String> {
        let index = |address: &str| {
            let line =
                devinfo.lines().find(|line| line.contains("GID[") && line.contains(&format!("{address}, RoCE v2")));
            let index = line.and_then(|line| line.split(['[', ']']).nth(1)).and_then(|index| index.trim().parse().ok());
            index.ok_or_else(|| format!("{device} has no GID of {address}:\n{devinfo}"))
        };
        Ok(Place { device: device.to_owned(), v4: index(&format!("::ffff:{v4}"))?, v6: index(v6)? })
    }

    /// The index of a family's GID.
    pub(crate) fn gid(&self, family: Family) -> usize {
        match family {
            Family::V4 => self.v4,
            Family::V6 => self.v6,
        }
    }
}

impl Wire {
    /// Runs an exchange: the server, then the client as soon as the server listens.
    pub(crate) fn perform(&mut self, exchange: &Exchange<'_>) -> Result<Outcome, String> {
        match exchange.role {
            Role::Client => self.against_server(exchange),
            Role::Server => self.against_client(exchange),
        }
    }

    /// Changes the link's MTU on both sides.
    pub(crate) fn set_mtu(&mut self, mtu: u32) -> Result<(), String> {
        if self.mtu != mtu {
            self.mtu = mtu;
            namespace::set_mtu(mtu)?;
            self.guest.run(&format!("ip link set eth0 mtu {mtu}"))?;
            self.local.new_hub();
        }
        Ok(())
    }

    /// Captures the wire into a file named after the program that is started next on our side.
    pub(crate) fn capture(&self) -> Result<Option<Capture>, String> {
        let file = |run: &PathBuf| run.join(format!("{}.pcap", self.local.next_name()));
        self.captures.as_ref().map(|run| Capture::start(namespace::LINK, &file(run))).transpose()
    }

    fn against_server(&mut self, exchange: &Exchange<'_>) -> Result<Outcome, String> {
        let server = self.guest.start(&exchange.theirs, PATIENCE + FAREWELL)?;
        self.guest_listens()?;
        let mut client = self.local.start(&format!("{} {THEIR_V4}", exchange.ours), exchange.faults)?;
        let (ours, theirs) = self.ended(&mut client, server)?;
        Ok(Outcome { client: (ours, client.said()), server: (theirs, self.guest.said(server)) })
    }

    fn against_client(&mut self, exchange: &Exchange<'_>) -> Result<Outcome, String> {
        let mut server = self.local.start(&exchange.ours, exchange.faults)?;
        if !local::listens(PORT, FAREWELL) {
            let nobody = (None, "not started: the server does not listen".to_owned());
            return Ok(Outcome { client: nobody, server: (server.wait(Duration::ZERO), server.said()) });
        }
        let client = self.guest.start(&format!("{} {OUR_V4}", exchange.theirs), PATIENCE + FAREWELL)?;
        let (ours, theirs) = self.ended(&mut server, client)?;
        Ok(Outcome { client: (theirs, self.guest.said(client)), server: (ours, server.said()) })
    }

    /// Waits for the end of both sides; the one that goes on long after the other is ended.
    fn ended(&mut self, ours: &mut Program, theirs: Job) -> Result<(Option<i32>, Option<i32>), String> {
        let start = Instant::now();
        let mut first_end = None;
        loop {
            let statuses = (ours.wait(Duration::ZERO), self.guest.wait(theirs, NAP)?);
            if statuses.0.is_some() || statuses.1.is_some() {
                first_end.get_or_insert_with(Instant::now);
            }
            let late = start.elapsed() > PATIENCE || first_end.is_some_and(|end| end.elapsed() > FAREWELL);
            if late && statuses.1.is_none() {
                self.guest.stop(theirs)?;
            }
            if late || (statuses.0.is_some() && statuses.1.is_some()) {
                return Ok(statuses);
            }
        }
    }

    /// Waits until the guest's server listens; if it does not, the client will tell.
    fn guest_listens(&mut self) -> Result<(), String> {
        let listens = format!("until grep -q ':{PORT:04X} .* 0A ' /proc/net/tcp /proc/net/tcp6; do sleep 0.02; done");
        let job: Job = self.guest.start(&listens, FAREWELL)?;
        self.guest.wait(job, FAREWELL * 2).map(drop)
    }
}

impl Outcome {
    /// Which side did not end well.
    pub(crate) fn problem(&self) -> Option<String> {
        [("client", self.client.0), ("server", self.server.0)].into_iter().find_map(|(side, status)| match status {
            Some(0) => None,
            Some(status) => Some(format!("the {side}'s status is {status}")),
            None => Some(format!("the {side} did not end")),
        })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (side, (_, said)) in [("client", &self.client), ("server", &self.server)] {
            for line in said.lines() {
                writeln!(f, "    {side}│ {line}")?;
            }
        }
        Ok(())
    }
}

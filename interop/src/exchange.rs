//! One run of a program on both sides of the wire.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::capture::TcpdumpCapture;
use crate::case::{Case, IpFamily, Role};
use crate::guest::{Guest, GuestJob};
use crate::local::{Local, LocalProgram};
use crate::namespace;

/// The longest time that a side may run after the other has ended. (rxe takes a retry count of 7 as endless.)
const MAX_LAG: Duration = Duration::from_secs(8);
/// The time that one poll of the guest waits.
const NAP: Duration = Duration::from_millis(10);
/// Both sides of the wire.
pub(crate) struct Wire {
    pub(crate) local: Local,
    pub(crate) guest: Guest,
    /// Longarm's device and addresses, and the guest's.
    pub(crate) ours: DeviceAddresses,
    pub(crate) theirs: DeviceAddresses,
    /// The link's MTU in bytes.
    pub(crate) mtu: u32,
    /// The options of the guest's queueing discipline.
    pub(crate) netem: Option<&'static str>,
    /// The directory for captures of all cases; `None`: no captures.
    pub(crate) captures: Option<PathBuf>,
}

/// A device, its IPv4 and IPv6 addresses and the indices of their GIDs.
pub(crate) struct DeviceAddresses {
    pub(crate) device: String,
    addresses: [&'static str; 2],
    gids: [usize; 2],
}

/// The addresses on the wire, ours and the guest's.
pub(crate) const OUR_V4: &str = "10.77.0.1";
pub(crate) const OUR_V6: &str = "fd77::1";
pub(crate) const THEIR_V4: &str = "10.77.0.11";
pub(crate) const THEIR_V6: &str = "fd77::b";

/// Exit status and output of both sides. A status of `None`: the program did not end and was stopped.
pub(crate) struct ExchangeOutcome {
    pub(crate) client: (Option<i32>, String),
    pub(crate) server: (Option<i32>, String),
}

/// The commands of both sides.
pub(crate) struct Exchange<'a> {
    pub(crate) ours: String,
    pub(crate) theirs: String,
    /// Longarm's role.
    pub(crate) role: Role,
    pub(crate) case: &'a Case,
}

impl DeviceAddresses {
    /// Finds the addresses' GID indices in the output of `ibv_devinfo -v`.
    pub(crate) fn new(
        device: &str,
        devinfo: &str,
        v4: &'static str,
        v6: &'static str,
    ) -> Result<DeviceAddresses, String> {
        let index = |address: &str| {
            let line =
                devinfo.lines().find(|line| line.contains("GID[") && line.contains(&format!("{address}, RoCE v2")));
            let index = line.and_then(|line| line.split(['[', ']']).nth(1)).and_then(|index| index.trim().parse().ok());
            index.ok_or_else(|| format!("{device} has no GID of {address}:\n{devinfo}"))
        };
        let gids = [index(&format!("::ffff:{v4}"))?, index(v6)?];
        Ok(DeviceAddresses { device: device.to_owned(), addresses: [v4, v6], gids })
    }

    /// The index of a family's GID.
    pub(crate) fn gid(&self, family: IpFamily) -> usize {
        self.gids[usize::from(family == IpFamily::V6)]
    }

    /// The address of a family.
    pub(crate) fn address(&self, family: IpFamily) -> &'static str {
        self.addresses[usize::from(family == IpFamily::V6)]
    }
}

impl Wire {
    /// Runs an exchange: the server, then the client as soon as the server listens.
    pub(crate) fn perform(&mut self, exchange: &Exchange<'_>) -> Result<ExchangeOutcome, String> {
        let (mut ours, theirs) = self.begin(exchange)?;
        let (our_status, their_status) = self.ended(&mut ours, theirs, exchange)?;
        let ours = (our_status, ours.output());
        let theirs = (their_status, self.guest.output(theirs));
        Ok(match exchange.role {
            Role::Client => ExchangeOutcome { client: ours, server: theirs },
            Role::Server => ExchangeOutcome { client: theirs, server: ours },
        })
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

    /// Sets the options of the guest's queueing discipline.
    fn set_netem(&mut self, netem: Option<&'static str>) -> Result<(), String> {
        if self.netem != netem {
            self.netem = netem;
            let discipline = netem.map_or("pfifo".to_owned(), |what| format!("netem {what}"));
            self.guest.run(&format!("tc qdisc replace dev eth0 root {discipline}"))?;
        }
        Ok(())
    }

    /// Captures the wire into a file named after the program that starts next on Longarm's side.
    pub(crate) fn capture(&self) -> Result<Option<TcpdumpCapture>, String> {
        let file = |run: &PathBuf| run.join(format!("{}.pcap", self.local.next_name()));
        self.captures.as_ref().map(|run| TcpdumpCapture::start(namespace::LINK, &file(run))).transpose()
    }

    /// Starts both sides and returns while they run.
    pub(crate) fn begin(&mut self, exchange: &Exchange<'_>) -> Result<(LocalProgram, GuestJob), String> {
        let Case { listens, patience, faults, netem, .. } = *exchange.case;
        self.set_netem(netem)?;
        let limit = patience + MAX_LAG;
        Ok(match exchange.role {
            Role::Client => {
                let server = self.guest.start(&exchange.theirs, limit)?;
                listens.wait_in_guest(&mut self.guest)?;
                (self.local.start(&exchange.ours, faults)?, server)
            }
            Role::Server => {
                let server = self.local.start(&exchange.ours, faults)?;
                // If the server does not listen, the client reports it.
                listens.wait(&self.local);
                (server, self.guest.start(&exchange.theirs, limit)?)
            }
        })
    }

    /// Waits for the end of both sides, and stops a side that runs too long after the other.
    fn ended(
        &mut self,
        ours: &mut LocalProgram,
        theirs: GuestJob,
        exchange: &Exchange<'_>,
    ) -> Result<(Option<i32>, Option<i32>), String> {
        let Case { outlives_client, patience, .. } = *exchange.case;
        let start = Instant::now();
        let mut first_end = None;
        loop {
            let mut statuses = (ours.wait(Duration::ZERO), self.guest.wait(theirs, NAP)?);
            if statuses.0.is_some() || statuses.1.is_some() {
                first_end.get_or_insert_with(Instant::now);
            }
            let late = start.elapsed() > patience || first_end.is_some_and(|end| end.elapsed() > MAX_LAG);
            let (client, server) = match exchange.role {
                Role::Client => (statuses.0, &mut statuses.1),
                Role::Server => (statuses.1, &mut statuses.0),
            };
            let over = client.is_some() && (server.is_some() || outlives_client);
            let unended = server.is_none() && exchange.role == Role::Client;
            if outlives_client && client.is_some() {
                server.get_or_insert(0);
            }
            if (late || over) && (statuses.1.is_none() || unended) {
                self.guest.stop(theirs)?;
            }
            if late || over {
                return Ok(statuses);
            }
        }
    }
}

impl ExchangeOutcome {
    /// The side that failed or did not end.
    pub(crate) fn problem(&self) -> Option<String> {
        [("client", self.client.0), ("server", self.server.0)].into_iter().find_map(|(side, status)| match status {
            Some(0) => None,
            Some(status) => Some(format!("the {side}'s status is {status}")),
            None => Some(format!("the {side} did not end")),
        })
    }
}

impl fmt::Display for ExchangeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (side, (_, said)) in [("client", &self.client), ("server", &self.server)] {
            for line in said.lines() {
                writeln!(f, "    {side}│ {line}")?;
            }
        }
        Ok(())
    }
}

//! A node: one process with its connection manager, behind a host that routes messages as the hub does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use cm::{ClosingMad, Config, ConnId, MadRoute, Manager};
use faults::Rng;
use wire::Qpn;
use wire::mad::{self, CmMessage};

use super::account::ConnectionPhase;
use super::plan::Leaver;

/// A connection that the application holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldConnection {
    /// Number of the attempt.
    pub(crate) tag: u32,
    pub(crate) client: bool,
    pub(crate) datagram: bool,
    pub(crate) leaver: Leaver,
    pub(crate) phase: ConnectionPhase,
    pub(crate) since: Duration,
}

/// One process, while it lives.
#[derive(Debug)]
pub(crate) struct ManagerNode {
    pub(crate) manager: Manager,
    pub(crate) held: BTreeMap<ConnId, HeldConnection>,
    pub(crate) rng: Rng,
    /// Processes so far: an action of an earlier one is void.
    pub(crate) life: u16,
    /// The next queue pair.
    qpn: u32,
    /// When the manager's timer is set to.
    pub(crate) armed: Option<Duration>,
    pub(crate) state: Power,
    index: usize,
    seed: u64,
}

/// Whether a node is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Power {
    On,
    /// The host answers for the process that is gone.
    NoProcess,
    Off,
}

/// The host's treatment of a message.
pub(crate) enum Routed {
    /// The process has it.
    Taken,
    /// The host answers by itself.
    Refused(Box<[u8; 256]>),
    /// Nothing.
    Dropped,
}

pub(crate) fn address(node: usize) -> IpAddr {
    [10, 0, 0, node as u8 + 1].into()
}

pub(crate) fn node_of(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(v4) => usize::from(v4.octets()[3]) - 1,
        IpAddr::V6(_) => unreachable!("nodes have IPv4 addresses"),
    }
}

pub(crate) fn route(from: usize, to: usize) -> MadRoute {
    MadRoute { local: address(from), remote: address(to), interface: 0, traffic_class: 0 }
}

impl ManagerNode {
    pub(crate) fn new(index: usize, seed: u64, rng: Rng) -> ManagerNode {
        ManagerNode {
            manager: manager(index, seed, 0),
            held: BTreeMap::new(),
            rng,
            life: 0,
            qpn: 0,
            armed: None,
            state: Power::On,
            index,
            seed,
        }
    }

    /// A queue pair that this process has not used.
    pub(crate) fn next_qpn(&mut self) -> Qpn {
        self.qpn += 1;
        Qpn::new((self.index as u32 + 1) << 16 | self.qpn)
    }

    /// The process dies; tells what the host may send in its name.
    pub(crate) fn die(&mut self, state: Power, same_qpns: bool) -> Vec<ClosingMad> {
        let closing_mads = self.held.keys().filter_map(|id| self.manager.closing_mad(*id)).collect();
        self.life += 1;
        self.held.clear();
        self.manager = manager(self.index, self.seed, self.life);
        self.armed = None;
        self.state = state;
        if same_qpns {
            self.qpn = 0;
        }
        closing_mads
    }

    /// Hands a message to the process, or answers for it.
    pub(crate) fn receive(&mut self, now: Duration, from: usize, bytes: &[u8; 256]) -> Routed {
        let Ok((_, message)) = mad::decode(bytes) else {
            return Routed::Dropped;
        };
        if self.state == Power::Off {
            return Routed::Dropped;
        }
        let is_for_us = match (&message, message.receiver_id()) {
            (_, None) => true,
            // Its sender never learned an id: the receiver knows such a connection by the sender's.
            (CmMessage::Rej(_), Some(0)) => true,
            (_, Some(id)) => ConnId(id).number() == number(self.index, self.life),
        };
        if is_for_us && self.state == Power::On {
            self.manager.receive(now, &route(self.index, from), bytes);
            return Routed::Taken;
        }
        cm::refuse(bytes).map_or(Routed::Dropped, |answer| Routed::Refused(Box::new(answer)))
    }
}

fn number(index: usize, life: u16) -> u16 {
    (index as u16 + 1) << 8 | (life & 0xff)
}

fn manager(index: usize, seed: u64, life: u16) -> Manager {
    let number = number(index, life);
    Manager::new(Config::new(number, 0xc0de_0000 + index as u64, seed ^ u64::from(number)))
}

//! MADs on their way through the hub: from QP1 to processes, and from processes to QP1.
//!
//! ```text
//!   slot 0 ─► recipient? ─► its connection's outbox
//!                 └ nobody: a refusal, if there is one ─┐  (requests wait a little: early.rs)
//!   clients ─► source ours? ──────────────────────────────┴─► Gsi ─► UDP 4791
//!   closing (wills of the dead) ────────────────────────┘
//! ```

use super::closing::ClosingQueue;
use super::early::Early;
use super::gsi::{self, Gsi, Returned};
use super::numbers::Numbers;
use super::ports::{Owner, PortTable};
use super::routing::{self, Recipient};
use super::server::Server;
use super::watch::Source;
use crate::mad::{ClosingMessage, Frame, MadPacket};
use crate::record::DeviceRecord;
use crate::status::MadCounters;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;
use wire::Gid;
use wire::mad::{self, Message};

/// The bits of a traffic class that say something about congestion, not about the service.
const ECN: u8 = 0b11;

/// What the hub knows about managing clients as a whole.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) ports: PortTable,
    pub(super) numbers: Numbers,
    pub(super) closing: ClosingQueue,
    pub(super) counters: MadCounters,
    pub(super) gsi: Gsi,
    pub(super) early: Early,
}

impl Relay {
    pub(super) fn new() -> Relay {
        Relay {
            ports: PortTable::default(),
            numbers: Numbers::new(random()),
            closing: ClosingQueue::default(),
            counters: MadCounters::default(),
            gsi: Gsi::new(),
            early: Early::default(),
        }
    }

    /// Sends a MAD whose source has been checked.
    fn send(&mut self, packet: &MadPacket) {
        match self.gsi.send(packet) {
            Ok(()) => self.counters.sent += 1,
            Err(error) => {
                self.counters.drop_unsent += 1;
                log::debug!("a MAD for {} was not sent: {error}", packet.remote);
            }
        }
    }

    /// Sends a process's MAD if it is sound. Returns whether it is.
    pub(super) fn send_for_client(&mut self, mut packet: MadPacket, devices: &[DeviceRecord]) -> bool {
        let Some(interface) = own_interface(devices, packet.local, packet.interface) else {
            self.counters.drop_source += 1;
            return false;
        };
        let remote = packet.remote;
        if mad::attribute(&packet.mad).is_err() || remote.is_multicast() || remote.is_unspecified() {
            self.counters.drop_unsound += 1;
            return false;
        }
        packet.interface = interface;
        self.send(&packet);
        true
    }

    /// Sends what is due of those who are gone.
    pub(super) fn carry_out(&mut self, now: Instant, devices: &[DeviceRecord]) {
        if self.closing.is_empty() {
            return;
        }
        let step = self.closing.step(now);
        self.counters.closing_unanswered += step.unanswered;
        for packet in step.send {
            self.counters.closing_sent += u64::from(self.send_for_client(packet, devices));
        }
    }

    /// A process is gone.
    pub(super) fn bury(&mut self, owner: Owner, number: u16, wills: impl IntoIterator<Item = ClosingMessage>) {
        self.ports.forget(owner);
        self.numbers.release(number);
        self.counters.closing_dropped += self.closing.take(wills);
    }

    /// Who is to have a MAD: nobody, one, or all who might know what is meant.
    fn owners(&self, packet: &MadPacket, message: &Message) -> Vec<Owner> {
        match routing::recipient(message) {
            Recipient::Number(number) => self.numbers.owner(number).into_iter().collect(),
            Recipient::Port(space, port) => {
                self.ports.route(space, port, packet.local, packet.interface).into_iter().collect()
            }
            Recipient::Anybody => self.numbers.owners().collect(),
            Recipient::Nobody => Vec::new(),
        }
    }

    /// Whether a MAD for nobody waits, since its listener may be about to come.
    fn may_be_early(&mut self, packet: &MadPacket, message: &Message) -> bool {
        matches!(routing::recipient(message), Recipient::Port(..)) && self.early.hold(Instant::now(), packet)
    }

    /// Takes the requests that need not wait any more.
    fn take_early(&mut self, now: Instant) -> Vec<MadPacket> {
        let ports = &self.ports;
        self.early.take(now, |packet| match mad::decode(&packet.mad).map(|(_, message)| routing::recipient(&message)) {
            Ok(Recipient::Port(space, port)) => ports.route(space, port, packet.local, packet.interface).is_some(),
            _ => false,
        })
    }

    /// Answers a MAD for nobody, if there is an answer.
    fn refuse(&mut self, packet: &MadPacket) {
        match cm::refuse(&packet.mad) {
            Some(mad) => {
                self.counters.refused += 1;
                self.send(&MadPacket { mad, traffic_class: packet.traffic_class & !ECN, ..packet.clone() });
            }
            None => self.counters.drop_nobody += 1,
        }
    }
}

impl Server {
    /// Takes what has arrived in slot 0, and gives MADs to whom they belong.
    pub(super) fn receive_stray_packets(&mut self) {
        let mut concerned = BTreeSet::new();
        for packet in self.port.take_stray_packets(&mut self.counters, &mut self.relay.counters) {
            self.relay_inward(packet, &mut concerned);
        }
        concerned.into_iter().for_each(|id| self.flush(id));
    }

    /// Tells processes which of their MADs came back.
    pub(super) fn return_undelivered(&mut self) {
        for Returned { mad, remote, errno } in self.relay.gsi.take_returned() {
            self.relay.counters.undelivered += 1;
            let Some(owner) = routing::sender(&mad).and_then(|number| self.relay.numbers.owner(number)) else {
                continue;
            };
            let local = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let packet = MadPacket { local, remote, interface: 0, traffic_class: 0, mad };
            let Some(connection) = self.connections.get_mut(&owner) else { continue };
            if connection.give_mad(Frame::Undelivered(errno, packet).encode()) {
                self.flush(owner);
            }
        }
    }

    /// Watches sockets of QP1 that were opened lately.
    pub(super) fn watch_gsi(&mut self) {
        let Some(sockets) = self.relay.gsi.take_unwatched() else { return };
        for socket in sockets {
            if let Err(error) = self.watch.add_for_errors(socket, Source::Undelivered) {
                log::warn!("cannot watch QP1 for errors: {error}");
            }
        }
    }

    fn relay_inward(&mut self, mut packet: MadPacket, concerned: &mut BTreeSet<Owner>) {
        let Ok((_, message)) = mad::decode(&packet.mad) else {
            self.relay.counters.drop_class += 1;
            return;
        };
        self.relay.counters.received += 1;
        // What comes from this host itself arrives on the loop-back interface.
        if let Some(interface) = own_interface(self.devices.list(), packet.local, packet.interface) {
            packet.interface = interface;
        }
        if self.relay.closing.answered(&packet) {
            self.relay.counters.closing_answered += 1;
            return;
        }
        let owners = self.relay.owners(&packet, &message);
        if owners.is_empty() {
            if !self.relay.may_be_early(&packet, &message) {
                self.relay.refuse(&packet);
            }
            return;
        }
        self.hand_out(packet, owners, concerned);
    }

    /// Requests that came before their listener, now that there is one or none will come.
    pub(super) fn relay_early(&mut self, now: Instant) {
        let mut concerned = BTreeSet::new();
        for packet in self.relay.take_early(now) {
            let Ok((_, message)) = mad::decode(&packet.mad) else { continue };
            let owners = self.relay.owners(&packet, &message);
            match owners.is_empty() {
                true => self.relay.refuse(&packet),
                false => self.hand_out(packet, owners, &mut concerned),
            }
        }
        concerned.into_iter().for_each(|id| self.flush(id));
    }

    fn hand_out(&mut self, packet: MadPacket, owners: Vec<Owner>, concerned: &mut BTreeSet<Owner>) {
        let frame = Frame::Mad(packet).encode();
        for owner in owners {
            let Some(connection) = self.connections.get_mut(&owner) else { continue };
            if connection.give_mad(frame.clone()) {
                self.relay.counters.delivered += 1;
                concerned.insert(owner);
            } else {
                self.relay.counters.drop_unread += 1;
            }
        }
    }
}

/// The interface of this host that has an address; of several, as link-local addresses may be on,
/// the one that is `said`. For a link-local address no other will do, unless none is said.
pub(super) fn own_interface(devices: &[DeviceRecord], address: IpAddr, said: u32) -> Option<u32> {
    let gid = Gid::from(address.to_canonical());
    let having = || devices.iter().filter(|device| device.valid_gids().any(|(_, own)| own == gid));
    if having().any(|device| device.interface_index == said) {
        return Some(said);
    }
    let any = having().next().map(|device| device.interface_index);
    any.filter(|_| said == 0 || !gsi::is_link_local(address))
}

/// A number that nobody foresees; not for secrets.
pub(super) fn random() -> u16 {
    RandomState::new().hash_one(0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Guid;

    fn device(index: u32, addresses: &[&str]) -> DeviceRecord {
        DeviceRecord {
            name: format!("la_eth{index}"),
            interface: format!("eth{index}"),
            interface_index: index,
            node_guid: Guid(1),
            port_guid: Guid(2),
            mtu_bytes: 1500,
            link_up: true,
            speed_mbps: 0,
            loopback: false,
            preferred: false,
            gids: addresses.iter().map(|address| Gid::from(address.parse::<IpAddr>().unwrap())).collect(),
        }
    }

    #[test]
    fn addresses_of_this_host_have_their_interface() {
        let devices = [device(3, &["192.0.2.1", "fe80::1"]), device(4, &["192.0.2.1", "fe80::1", "fe80::2"])];
        let cases = [
            ("192.0.2.1", 0, Some(3)),
            ("192.0.2.1", 4, Some(4)),
            ("192.0.2.1", 1, Some(3)),
            ("::ffff:192.0.2.1", 0, Some(3)),
            ("192.0.2.2", 3, None),
            ("0.0.0.0", 0, None),
            ("::", 0, None),
            ("fe80::1", 4, Some(4)),
            ("fe80::2", 0, Some(4)),
            ("fe80::2", 3, None),
            ("fe80::2", 1, None),
        ];
        for (address, said, interface) in cases {
            assert_eq!(own_interface(&devices, address.parse().unwrap(), said), interface, "{address} on {said}");
        }
    }
}

//! MADs on their way through the hub: from QP1 to processes, and from processes to QP1.
//!
//! ```text
//!   slot 0 ─► recipient? ─► MadDelivery, for the client's outbox
//!                 └ no process: a refusal, if there is one ─┐  (requests wait a little: early_requests)
//!   clients ─► source ours? ───────────────────────────────┴─► GsiSender ─► UDP 4791
//!   closing messages of dead clients ───────────────────────┘
//! ```
//!
//! It owns everything about clients that manage connections: numbers, ports, closing messages.
//!
//! Outside this module: it does not know the clients' connections. The caller puts deliveries into
//! their outboxes and [reports](MadRelay::count_delivery) the outcome.

use super::closing::{ClosingQueue, DueMessages};
use super::devices::owning_interface;
use super::early_requests::EarlyRequests;
use super::ephemeral;
use super::gsi::{GsiSender, UndeliveredMad};
use super::managers::{Managers, ManagingClient};
use super::ports::{BindScope, PortTable};
use super::recipient::{self, Recipient};
use super::response::{ClientId, ClientResponse};
use crate::mad::{AddressedMad, HubFrame};
use crate::message::{BindRefusal, BindSpec, HubRequest, Reply};
use crate::record::DeviceRecord;
use crate::status::{MAX_PORTS_SHOWN, MadCounters, ManagerStatus};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::Instant;
use wire::mad::{self, CmMessage};

/// The bits of a traffic class that are about congestion, not about the service.
const ECN: u8 = 0b11;

/// The frame of a MAD, and the clients that get it.
#[derive(Debug)]
pub(super) struct MadDelivery {
    pub(super) clients: Vec<ClientId>,
    pub(super) frame: Vec<u8>,
}

/// The relay between QP1 and the clients that manage connections.
#[derive(Debug)]
pub(super) struct MadRelay {
    ports: PortTable,
    managers: Managers,
    closing: ClosingQueue,
    gsi: GsiSender,
    early: EarlyRequests,
    counters: MadCounters,
}

impl MadRelay {
    pub(super) fn new() -> MadRelay {
        MadRelay {
            ports: PortTable::default(),
            managers: Managers::new(ephemeral::random()),
            closing: ClosingQueue::default(),
            gsi: GsiSender::new(),
            early: EarlyRequests::default(),
            counters: MadCounters::default(),
        }
    }

    pub(super) fn counters(&self) -> &MadCounters {
        &self.counters
    }

    pub(super) fn counters_mut(&mut self) -> &mut MadCounters {
        &mut self.counters
    }

    /// A client manages connections from now on. Returns its number, `wanted` if that is free; `None` if there is
    /// none.
    pub(super) fn add_client(&mut self, id: ClientId, wanted: Option<u16>) -> Option<u16> {
        self.managers.add(id, wanted)
    }

    /// Frees a dead client's ports and number, and takes its closing messages. Returns how many they are.
    pub(super) fn remove_client(&mut self, id: ClientId) -> usize {
        let Some(client) = self.managers.remove(id) else { return 0 };
        self.ports.remove_owner(id);
        let count = client.closing.len();
        self.counters.closing_dropped += self.closing.take(client.closing.into_messages());
        count
    }

    /// Handles a managing client's request about a port.
    pub(super) fn change_port(
        &mut self,
        id: ClientId,
        request: &HubRequest,
        devices: &[DeviceRecord],
    ) -> ClientResponse {
        let (token, outcome) = match *request {
            // A client of an earlier hub keeps a port whose address has gone.
            HubRequest::Bind { token, spec, again: false, .. } if !is_available(&spec, devices) => {
                (token, Err(BindRefusal::NotAvailable))
            }
            HubRequest::Bind { token, spec, listening, .. } => (token, self.bind(id, token, &spec, listening)),
            HubRequest::Listen { token } => (token, self.ports.listen(id, token)),
            HubRequest::Unbind { token } => {
                // An unknown token changes nothing.
                self.ports.unbind(id, token);
                return ClientResponse::None;
            }
            _ => unreachable!("the caller passes requests about ports only"),
        };
        match outcome {
            Ok(port) => Reply::Bound { token, port }.into(),
            Err(refusal) => Reply::NotBound { token, refusal }.into(),
        }
    }

    /// Binds a port, and listens on it if asked to.
    fn bind(&mut self, id: ClientId, token: u64, spec: &BindSpec, listening: bool) -> Result<u16, BindRefusal> {
        let port = self.ports.bind(id, token, spec, ephemeral::system_ports)?;
        if listening {
            self.ports.listen(id, token).inspect_err(|_| {
                self.ports.unbind(id, token);
            })?;
        }
        Ok(port)
    }

    /// Takes a client's frame. `None` if it is malformed, or of a kind that only the hub sends.
    pub(super) fn take_frame(&mut self, id: ClientId, bytes: &[u8], devices: &[DeviceRecord]) -> Option<()> {
        let frame = HubFrame::decode(bytes)?;
        let client = self.managers.get_mut(id).expect("only a managing client sends frames");
        match frame {
            HubFrame::Mad(packet) => {
                let was_sound = self.send_checked(packet, devices);
                self.managers.get_mut(id)?.mads_sent += u64::from(was_sound);
            }
            HubFrame::SetClosingMessage(key, message) => {
                self.counters.closing_dropped += u64::from(!client.closing.set(key, message));
            }
            HubFrame::ClearClosingMessage(key) => drop(client.closing.clear(key)),
            HubFrame::Undelivered(..) => return None,
        }
        Some(())
    }

    /// Takes a MAD that has arrived at QP1. Returns the delivery, if it is for a client.
    pub(super) fn receive(&mut self, mut packet: AddressedMad, devices: &[DeviceRecord]) -> Option<MadDelivery> {
        let Ok((_, message)) = mad::decode(&packet.mad) else {
            self.counters.drop_class += 1;
            return None;
        };
        self.counters.received += 1;
        // MADs of this host itself arrive on the loop-back interface.
        if let Some(interface) = owning_interface(devices, packet.local, packet.interface) {
            packet.interface = interface;
        }
        if self.closing.answered(&packet) {
            self.counters.closing_answered += 1;
            return None;
        }
        let clients = self.recipients(&packet, &message);
        if clients.is_empty() && self.may_be_early(&packet, &message) {
            return None;
        }
        self.deliver_or_refuse(packet, clients)
    }

    /// Takes the early requests whose listener has come, or whose time is over.
    pub(super) fn take_early(&mut self, now: Instant) -> Vec<MadDelivery> {
        let ports = &self.ports;
        let due = self.early.take(now, |packet| match mad::decode(&packet.mad) {
            Ok((_, message)) => listener(ports, packet, &message).is_some(),
            Err(_) => false,
        });
        let deliveries = due.into_iter().filter_map(|packet| {
            let (_, message) = mad::decode(&packet.mad).expect("only a decoded request waits");
            let clients = self.recipients(&packet, &message);
            self.deliver_or_refuse(packet, clients)
        });
        deliveries.collect()
    }

    /// Takes the MADs that the network could not deliver, for the clients that sent them.
    pub(super) fn take_undelivered(&mut self) -> Vec<MadDelivery> {
        let undelivered = self.gsi.take_undelivered();
        self.counters.undelivered += undelivered.len() as u64;
        let deliveries = undelivered.into_iter().filter_map(|UndeliveredMad { mad, remote, errno }| {
            let sender = recipient::sender(&mad).and_then(|number| self.managers.with_number(number))?;
            let local = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let packet = AddressedMad { local, remote, interface: 0, traffic_class: 0, mad };
            Some(MadDelivery { clients: vec![sender], frame: HubFrame::Undelivered(errno, packet).encode() })
        });
        deliveries.collect()
    }

    /// Counts a delivery of a MAD that has arrived: whether the client's outbox had room.
    pub(super) fn count_delivery(&mut self, was_queued: bool) {
        match was_queued {
            true => self.counters.delivered += 1,
            false => self.counters.drop_unread += 1,
        }
    }

    /// Sends the closing messages that are due.
    pub(super) fn send_closing_messages(&mut self, now: Instant, devices: &[DeviceRecord]) {
        let DueMessages { send, unanswered } = self.closing.take_due(now);
        self.counters.closing_unanswered += unanswered;
        for packet in send {
            self.counters.closing_sent += u64::from(self.send_checked(packet, devices));
        }
    }

    /// Whether closing messages of dead clients have yet to be sent or answered.
    pub(super) fn has_closing_messages(&self) -> bool {
        !self.closing.is_empty()
    }

    /// The time of the next [`take_early`](MadRelay::take_early) or
    /// [`send_closing_messages`](MadRelay::send_closing_messages).
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        [self.closing.next_deadline(now), self.early.next_deadline()].into_iter().flatten().min()
    }

    /// The sockets of QP1 to watch for errors, if one may have been opened since the last call.
    pub(super) fn take_unwatched(&mut self) -> Option<impl Iterator<Item = BorrowedFd<'_>>> {
        self.gsi.take_unwatched()
    }

    /// A client's part of the status, without the parts that its connection knows.
    pub(super) fn client_status(&self, id: ClientId) -> Option<ManagerStatus> {
        let ManagingClient { number, closing, mads_sent } = self.managers.get(id)?;
        Some(ManagerStatus {
            number: *number,
            ports: self.ports.of(id).take(MAX_PORTS_SHOWN).collect(),
            ports_total: self.ports.count(id) as u64,
            closing_messages: closing.len() as u64,
            mads_sent: *mads_sent,
            ..ManagerStatus::default()
        })
    }

    /// The clients that get a MAD: none, one, or all that might know what it is about.
    fn recipients(&self, packet: &AddressedMad, message: &CmMessage) -> Vec<ClientId> {
        match recipient::of(message) {
            Recipient::Number(number) => self.managers.with_number(number).into_iter().collect(),
            Recipient::Port(..) => listener(&self.ports, packet, message).into_iter().collect(),
            Recipient::Anybody => self.managers.ids().collect(),
            Recipient::Nobody => Vec::new(),
        }
    }

    /// Keeps a request without a listener for a while, if it is one. Returns whether it waits.
    fn may_be_early(&mut self, packet: &AddressedMad, message: &CmMessage) -> bool {
        matches!(recipient::of(message), Recipient::Port(..)) && self.early.hold(Instant::now(), packet)
    }

    fn deliver_or_refuse(&mut self, packet: AddressedMad, clients: Vec<ClientId>) -> Option<MadDelivery> {
        if !clients.is_empty() {
            return Some(MadDelivery { clients, frame: HubFrame::Mad(packet).encode() });
        }
        match cm::refuse(&packet.mad) {
            Some(mad) => {
                self.counters.refused += 1;
                self.send(&AddressedMad { mad, traffic_class: packet.traffic_class & !ECN, ..packet });
            }
            None => self.counters.drop_nobody += 1,
        }
        None
    }

    /// Sends a client's MAD if its source is this host's and its content sound. Returns whether they are.
    fn send_checked(&mut self, mut packet: AddressedMad, devices: &[DeviceRecord]) -> bool {
        let Some(interface) = owning_interface(devices, packet.local, packet.interface) else {
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

    fn send(&mut self, packet: &AddressedMad) {
        match self.gsi.send(packet) {
            Ok(()) => self.counters.sent += 1,
            Err(error) => {
                self.counters.drop_unsent += 1;
                log::debug!("a MAD for {} was not sent: {error}", packet.remote);
            }
        }
    }
}

/// The client that listens on the port that a request names.
fn listener(ports: &PortTable, packet: &AddressedMad, message: &CmMessage) -> Option<ClientId> {
    match recipient::of(message) {
        Recipient::Port(space, port) => ports.route(space, port, packet.local, packet.interface),
        _ => None,
    }
}

/// Whether an address to bind to is one of this host's. The port table refuses addresses that cannot be bound at
/// all.
fn is_available(spec: &BindSpec, devices: &[DeviceRecord]) -> bool {
    let interface = match spec.address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => v6.scope_id(),
    };
    match BindScope::of(spec.address, spec.afonly) {
        Some(BindScope::V4(_) | BindScope::V6(..)) => owning_interface(devices, spec.address.ip(), interface).is_some(),
        Some(BindScope::AnyV4 | BindScope::AnyV6 | BindScope::Any) | None => true,
    }
}

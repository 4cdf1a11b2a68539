//! The hub's components, and the way of each request to the component that serves it.
//!
//! Outside this module: it waits for nothing and flushes nothing. It queues replies and MADs with
//! [`Clients`].

use super::attachments::{Attachments, ClientFiles, check_slots};
use super::clients::{ClientConnection, ClientStage, Clients};
use super::devices::DeviceMonitor;
use super::error::HubError;
use super::introductions::Introductions;
use super::options::DaemonOptions;
use super::relay::{MadDelivery, MadRelay};
use super::response::{ClientId, ClientResponse, RequestError};
use super::status::{HubIdentity, StatusSources, milliseconds};
use super::udp_port::UdpPort;
use crate::channel::ReceivedMessage;
use crate::mad::HubFrame;
use crate::message::{ErrorCode, HubRequest, Reply, VERSION};
use crate::status::{HubCounters, HubStatus};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// A request that needs the UDP port, and waits until the hub has it.
#[derive(Debug)]
enum PortRequest {
    /// A slot, if possible this one.
    Slot(Option<u8>, ClientFiles),
    /// To manage connections, if possible with this number.
    Manage(Option<u16>),
}

/// Everything that the hub knows about its clients, but for their connections.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) port: UdpPort,
    pub(super) devices: DeviceMonitor,
    attachments: Attachments,
    introductions: Introductions,
    pub(super) relay: MadRelay,
    pub(super) counters: HubCounters,
    waiting: BTreeMap<ClientId, PortRequest>,
    idle_timeout: Option<Duration>,
    identity: HubIdentity,
    pub(super) is_told_to_exit: bool,
}

impl Hub {
    pub(super) fn new(options: &DaemonOptions, namespace: u64, runtime_dir: &Path) -> Result<Hub, HubError> {
        Ok(Hub {
            port: UdpPort::bind(options, namespace)?,
            devices: DeviceMonitor::new().map_err(HubError::system("list the network interfaces"))?,
            attachments: Attachments::default(),
            introductions: Introductions::default(),
            relay: MadRelay::new(),
            counters: HubCounters::default(),
            waiting: BTreeMap::new(),
            idle_timeout: options.idle_timeout,
            identity: HubIdentity::new(namespace, runtime_dir),
            is_told_to_exit: false,
        })
    }

    pub(super) fn holds_port(&self) -> bool {
        self.port.group().is_some()
    }

    /// The time without clients after which the hub exits; `None` while closing messages wait, and if it stays for
    /// ever.
    pub(super) fn idle_timeout(&self) -> Option<Duration> {
        self.idle_timeout.filter(|_| !self.relay.has_closing_messages())
    }

    /// Handles one message of a client, and queues the answer.
    ///
    /// # Errors
    /// If the hub itself cannot continue.
    pub(super) fn handle_message(
        &mut self,
        clients: &mut Clients,
        id: ClientId,
        message: ReceivedMessage,
    ) -> Result<(), HubError> {
        let response = match self.dispatch(clients, id, message) {
            Ok(response) => response,
            Err(error) => error.into_response(&mut self.counters)?,
        };
        clients.respond(id, response);
        Ok(())
    }

    fn dispatch(
        &mut self,
        clients: &mut Clients,
        id: ClientId,
        message: ReceivedMessage,
    ) -> Result<ClientResponse, RequestError> {
        let Some(connection) = clients.get_mut(id) else { return Ok(ClientResponse::None) };
        connection.mark_active();
        let stage = connection.stage;
        let ReceivedMessage { bytes, mut descriptors, .. } = message;
        if stage == ClientStage::Managing && HubFrame::is_frame(&bytes) {
            let taken = self.relay.take_frame(id, &bytes, self.devices.list());
            taken.ok_or_else(|| RequestError::Malformed("the frame is not understood".into()))?;
            return Ok(ClientResponse::None);
        }
        let request = HubRequest::decode(&bytes)
            .map_err(|error| RequestError::Malformed(format!("the message is not understood: {error}")))?;
        match (stage, request) {
            (ClientStage::New, HubRequest::Hello { version, pid, program }) => {
                self.counters.refused_others += u64::from(version != VERSION);
                Ok(connection.greet(version, pid, &program))
            }
            (ClientStage::New, _) => Err(RequestError::OutOfOrder("the first message must be a hello")),
            (ClientStage::Waiting, _) => Err(RequestError::OutOfOrder("the last request is not answered yet")),
            (ClientStage::Greeted, HubRequest::Attach { slot, counters, shm }) => {
                let files = ClientFiles::take(counters, shm, descriptors)?;
                self.grant_or_wait(connection, id, PortRequest::Slot(slot, files))
            }
            (ClientStage::Greeted, HubRequest::Manage { number }) => {
                self.grant_or_wait(connection, id, PortRequest::Manage(number))
            }
            (ClientStage::Greeted, HubRequest::Reattach { slots, counters, shm }) => {
                let proofs_end = descriptors.len().saturating_sub(ClientFiles::count(counters, shm));
                let files = ClientFiles::take(counters, shm, descriptors.split_off(proofs_end))?;
                self.reattach(clients, id, &slots, descriptors, files)
            }
            (ClientStage::Attached, HubRequest::Introduce { slot }) => self.introduce(clients, id, slot, descriptors),
            (ClientStage::Attached, request @ (HubRequest::MoreSlots { .. } | HubRequest::Release { .. })) => {
                let group = self.port.group_mut().expect("an attached client has slots of the port");
                self.attachments.change_slots(id, group, &request)
            }
            (
                ClientStage::Managing,
                request @ (HubRequest::Bind { .. } | HubRequest::Listen { .. } | HubRequest::Unbind { .. }),
            ) => Ok(self.relay.change_port(id, &request, self.devices.list())),
            (ClientStage::Greeted | ClientStage::Attached | ClientStage::Managing, request) => {
                self.answer_question(clients, id, &request)
            }
        }
    }

    fn grant_or_wait(
        &mut self,
        connection: &mut ClientConnection,
        id: ClientId,
        request: PortRequest,
    ) -> Result<ClientResponse, RequestError> {
        if self.holds_port() {
            return self.grant(connection, id, request);
        }
        connection.stage = ClientStage::Waiting;
        let before = self.waiting.insert(id, request);
        assert!(before.is_none(), "a waiting client's requests are refused");
        Ok(ClientResponse::None)
    }

    fn grant(
        &mut self,
        connection: &mut ClientConnection,
        id: ClientId,
        request: PortRequest,
    ) -> Result<ClientResponse, RequestError> {
        let devices = self.devices.list().to_vec();
        match request {
            PortRequest::Slot(wanted, files) => {
                let group = self.port.group_mut().expect("`holds_port` was checked");
                let (slots, descriptors) = self.attachments.attach(id, connection.peer, group, wanted, files)?;
                self.counters.attached += 1;
                log::info!("process {} ({}) has slots {slots:?}", connection.pid, connection.program);
                connection.stage = ClientStage::Attached;
                Ok(ClientResponse::Reply(Reply::Attached { slots, devices }, descriptors))
            }
            PortRequest::Manage(wanted) => {
                let number = self.relay.add_client(id, wanted).ok_or_else(|| {
                    let reason = "no number for a process that manages connections is free";
                    RequestError::Denied(ErrorCode::NoSlot, reason.into())
                })?;
                log::info!("process {} ({}) manages connections as {number}", connection.pid, connection.program);
                connection.stage = ClientStage::Managing;
                Ok(Reply::Managing { number, devices }.into())
            }
        }
    }

    /// Gives a client of an earlier hub its slots again, and takes the port over with its keeper if necessary.
    fn reattach(
        &mut self,
        clients: &mut Clients,
        id: ClientId,
        slots: &[u8],
        mut keeper_and_proofs: Vec<OwnedFd>,
        files: ClientFiles,
    ) -> Result<ClientResponse, RequestError> {
        check_slots(slots, keeper_and_proofs.len().saturating_sub(1))?;
        let proofs = keeper_and_proofs.split_off(1);
        let keeper = keeper_and_proofs.pop().expect("`check_slots` wants a slot, and so a proof behind the keeper");
        match self.port.recover(keeper).map_err(RequestError::Fatal)? {
            Ok(true) => self.grant_waiting(clients).map_err(RequestError::Fatal)?,
            Ok(false) => {}
            Err(error) => {
                log::warn!("a keeper is of no use: {error}");
                return Err(RequestError::Denied(ErrorCode::NotYours, format!("the keeper is of no use: {error}")));
            }
        }
        let Some(connection) = clients.get_mut(id) else { return Ok(ClientResponse::None) };
        let group = self.port.group_mut().expect("`recover` has succeeded");
        let keeper = self.attachments.reattach(id, connection.peer, group, (slots, &proofs), files)?;
        self.counters.reattached += 1;
        log::info!("process {} ({}) has slots {slots:?} again", connection.pid, connection.program);
        connection.stage = ClientStage::Attached;
        let devices = self.devices.list().to_vec();
        Ok(ClientResponse::Reply(Reply::Attached { slots: slots.to_vec(), devices }, vec![keeper]))
    }

    /// The hub holds the port: grants all requests that wait for it.
    fn grant_waiting(&mut self, clients: &mut Clients) -> Result<(), HubError> {
        for (id, request) in std::mem::take(&mut self.waiting) {
            let connection = clients.get_mut(id).expect("`remove_client` takes a client's request out");
            connection.stage = ClientStage::Greeted;
            let response = match self.grant(connection, id, request) {
                Ok(response) => response,
                Err(error) => error.into_response(&mut self.counters)?,
            };
            clients.respond(id, response);
        }
        Ok(())
    }

    fn introduce(
        &mut self,
        clients: &Clients,
        id: ClientId,
        slot: u8,
        descriptors: Vec<OwnedFd>,
    ) -> Result<ClientResponse, RequestError> {
        let link = <[OwnedFd; 2]>::try_from(descriptors)
            .map_err(|_| RequestError::Malformed("an introduction takes two descriptors".into()))?;
        match self.introductions.introduce(clients, &self.attachments, id, slot, &link) {
            Ok(response) => {
                self.counters.introduced += 1;
                Ok(response)
            }
            Err(refusal) => Ok(Reply::NotIntroduced { slot, refusal }.into()),
        }
    }

    fn status(&self, clients: &Clients) -> HubStatus {
        let sources = StatusSources {
            port: self.port.group(),
            clients,
            attachments: &self.attachments,
            introductions: &self.introductions,
            relay: &self.relay,
        };
        HubStatus {
            idle_timeout_ms: self.idle_timeout.map(milliseconds),
            counters: self.counters.clone(),
            ..sources.compose(&self.identity)
        }
    }

    /// Requests that every client may make.
    fn answer_question(
        &mut self,
        clients: &Clients,
        id: ClientId,
        request: &HubRequest,
    ) -> Result<ClientResponse, RequestError> {
        let reply = match *request {
            HubRequest::Status => Reply::Status(Box::new(self.status(clients))),
            HubRequest::Devices => Reply::Devices { devices: self.devices.list().to_vec() },
            HubRequest::Ping => Reply::Done,
            HubRequest::KeepUp { idle_timeout_ms } => {
                self.idle_timeout = idle_timeout_ms.map(Duration::from_millis);
                Reply::Done
            }
            HubRequest::Shutdown { force } => self.shut_down(clients, id, force),
            _ => return Err(RequestError::OutOfOrder("the message is not allowed now")),
        };
        Ok(reply.into())
    }

    fn shut_down(&mut self, clients: &Clients, id: ClientId, force: bool) -> Reply {
        let others = clients.iter().filter(|(other, connection)| *other != id && connection.is_member());
        // A process may have several connections.
        let others: BTreeMap<u32, &str> = others.map(|(_, other)| (other.pid, other.program.as_str())).collect();
        if !others.is_empty() && !force {
            let others: Vec<String> = others.iter().map(|(pid, program)| format!("{pid} ({program})")).collect();
            return Reply::error(ErrorCode::InUse, format!("in use by process {}", others.join(", ")));
        }
        self.is_told_to_exit = true;
        Reply::Done
    }

    /// Cleans up after a client whose connection has ended. Takes the frames that it sent before, frees its slots
    /// and ports, and queues its closing messages.
    pub(super) fn remove_client(&mut self, id: ClientId, connection: &ClientConnection, reason: &str) {
        let (pid, program) = (connection.pid, &connection.program);
        self.waiting.remove(&id);
        self.introductions.remove(id);
        if connection.stage == ClientStage::Managing {
            for message in connection.left_over() {
                self.relay.take_frame(id, &message.bytes, self.devices.list());
            }
            match self.relay.remove_client(id) {
                0 => {}
                count => log::info!("process {pid} leaves {count} closing messages"),
            }
        }
        let Some(slots) = self.attachments.remove(id) else {
            return log::debug!("connection of process {pid} ({program}) ends: {reason}");
        };
        self.counters.detached += 1;
        self.port.group_mut().expect("an attached client has slots of the port").release(&slots, id);
        log::info!("detached process {pid} ({program}) from slots {slots:?}: {reason}");
    }

    /// Takes the packets that have arrived in slot 0.
    pub(super) fn receive_slot0(&mut self, clients: &mut Clients) {
        for packet in self.port.receive(&mut self.counters, self.relay.counters_mut()) {
            if let Some(delivery) = self.relay.receive(packet, self.devices.list()) {
                self.deliver(clients, &delivery);
            }
        }
    }

    /// Tells processes which of their MADs the network could not deliver.
    pub(super) fn return_undelivered(&mut self, clients: &mut Clients) {
        for MadDelivery { clients: senders, frame } in self.relay.take_undelivered() {
            for sender in senders {
                clients.queue_mad(sender, frame.clone());
            }
        }
    }

    fn deliver(&mut self, clients: &mut Clients, delivery: &MadDelivery) {
        for id in &delivery.clients {
            if let Some(was_queued) = clients.queue_mad(*id, delivery.frame.clone()) {
                self.relay.count_delivery(was_queued);
            }
        }
    }

    /// The monitor reports changes of interfaces.
    pub(super) fn read_device_monitor(&mut self, clients: &mut Clients) {
        let changed = self.devices.take_changes();
        notify(changed, clients);
    }

    /// Lists the devices again, in case that the monitor has missed a change.
    pub(super) fn refresh_devices(&mut self, clients: &mut Clients) {
        let changed = self.devices.refresh();
        notify(changed, clients);
    }

    /// The time of the next [`tick`](Hub::tick).
    pub(super) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        [self.port.next_deadline(), self.relay.next_deadline(now)].into_iter().flatten().min()
    }

    /// Does everything that is due.
    ///
    /// # Errors
    /// If the hub cannot have the port. The waiting clients have been told.
    pub(super) fn tick(&mut self, now: Instant, clients: &mut Clients) -> Result<(), HubError> {
        match self.port.advance(now) {
            Ok(true) => self.grant_waiting(clients)?,
            Ok(false) => {}
            Err(error) => {
                for id in std::mem::take(&mut self.waiting).into_keys() {
                    clients.respond(id, ClientResponse::Final(Reply::error(ErrorCode::NoPort, &error)));
                }
                return Err(error);
            }
        }
        self.relay.send_closing_messages(now, self.devices.list());
        for delivery in self.relay.take_early(now) {
            self.deliver(clients, &delivery);
        }
        Ok(())
    }
}

fn notify(changed: io::Result<bool>, clients: &mut Clients) {
    match changed {
        Ok(true) => clients.notify_devices(),
        Ok(false) => {}
        Err(error) => log::warn!("cannot list the devices: {error}"),
    }
}

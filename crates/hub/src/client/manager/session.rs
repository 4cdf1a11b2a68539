//! The session of a process that manages connections.

use super::error::PortBindError;
use super::inbound::HubMessage;
use super::outgoing::OutgoingQueue;
use super::ports::{BoundPorts, PortAnswer};
use super::types::{BindOptions, BoundPort, ManagerCounters, ManagerEvent};
use crate::client::connector::HubAnswer;
use crate::client::error::AttachError;
use crate::client::hub_connection::{ANSWER_TIMEOUT, HubConnection};
use crate::client::options::AttachOptions;
use crate::closing_messages::ClosingMessages;
use crate::mad::{AddressedMad, ClosingMessage};
use crate::message::{BindSpec, HubRequest, Reply};
use crate::record::DeviceRecord;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Most messages of the hub that one call of [`ManagerSession::maintain`] reads.
const MAX_MESSAGES: usize = 512;

/// The time that a session takes at its end to send its last messages.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(250);

/// A session for managing connections. Dropping it gives its ports back, and makes the hub send its closing messages
/// that were not withdrawn.
///
/// The owner waits on [`poll_fd`](ManagerSession::poll_fd), which never changes. It calls
/// [`maintain`](ManagerSession::maintain) when that is readable and at the time that `maintain` has returned; then it takes
/// the [events](ManagerSession::next_event). Only
/// [`bind`](ManagerSession::bind) and [`listen`](ManagerSession::listen) block.
///
/// All descriptors are closed on `exec`. In a child made by `fork` alone nothing works, and
/// nothing that it does disturbs the parent.
#[derive(Debug)]
pub struct ManagerSession {
    hub: HubConnection,
    number: u16,
    devices: Vec<DeviceRecord>,
    events: VecDeque<ManagerEvent>,
    outgoing: OutgoingQueue,
    ports: BoundPorts,
    closing: ClosingMessages,
    /// The number of hubs before this one.
    generation: u64,
    counters: ManagerCounters,
}

/// Registers this process with the hub as one that manages connections. Ignores the options
/// about slots and counters.
///
/// Blocks for some milliseconds if the hub has to be started, else for microseconds.
///
/// # Errors
/// See [`AttachError`]; `NoSlot` if 4095 processes manage connections already.
pub fn manage(options: &AttachOptions) -> Result<ManagerSession, AttachError> {
    let (hub, reply, _) = HubConnection::open(options, HubRequest::Manage { number: None }, Vec::new())?;
    let Reply::Managing { number, devices } = reply else { return Err(AttachError::unexpected(&reply)) };
    Ok(ManagerSession {
        hub,
        number,
        devices,
        events: VecDeque::new(),
        outgoing: OutgoingQueue::default(),
        ports: BoundPorts::default(),
        closing: ClosingMessages::default(),
        generation: 0,
        counters: ManagerCounters::default(),
    })
}

impl ManagerSession {
    /// A forked child takes over the session of its parent. The parent has ended, and the hub knows that: the child
    /// attaches itself in its place, and asks for the same number and ports.
    pub fn take_over(&mut self) {
        self.hub.take_over();
        self.lose_hub("it was this process's parent's");
    }

    /// The process's number, 1 to 4095: the high 12 bits of its communication ids.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The devices as the hub last reported them.
    pub fn devices(&self) -> &[DeviceRecord] {
        &self.devices
    }

    /// Whether a hub knows this process, as far as the session has noticed.
    pub fn is_attached(&self) -> bool {
        self.hub.is_attached()
    }

    /// The messages that the session has dropped.
    pub fn counters(&self) -> ManagerCounters {
        self.counters
    }

    /// Readable when [`maintain`](ManagerSession::maintain) has something to do.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.hub.poll_fd()
    }

    /// Takes the oldest event.
    pub fn next_event(&mut self) -> Option<ManagerEvent> {
        self.events.pop_front()
    }

    /// Reads the hub's messages, sends those that wait, and finds or starts a new hub if the
    /// old one is gone. Returns the latest time for the next call; `None` if
    /// only [`poll_fd`](ManagerSession::poll_fd) matters.
    ///
    /// Takes microseconds, and about a millisecond when it starts a hub.
    pub fn maintain(&mut self, now: Instant) -> Option<Instant> {
        if !self.hub.is_ours() {
            return None;
        }
        for _ in 0..MAX_MESSAGES {
            if !self.is_attached() {
                return self.reconnect(now);
            }
            match HubMessage::receive(&self.hub) {
                Ok(Some(message)) => drop(self.take_in(message)),
                Ok(None) => {
                    self.flush();
                    return None;
                }
                Err(reason) => self.lose_hub(&reason),
            }
        }
        self.flush();
        Some(now)
    }

    /// Sends a MAD from QP1. Never blocks. The MAD is dropped, and counted, while there is no hub or
    /// too many wait to be sent. The hub drops it if its local address is not this host's.
    pub fn send_mad(&mut self, packet: &AddressedMad) {
        if self.can_send() && self.outgoing.push_mad(packet) {
            self.flush();
        } else {
            self.counters.mads_dropped += 1;
        }
    }

    /// Binds a port of a port space to an address of this host, or to all of them if it is
    /// unspecified. The port spaces are `RDMA_PS_TCP` (0x0106), `RDMA_PS_UDP` (0x0111),
    /// `RDMA_PS_IB` (0x013f) and `RDMA_PS_IPOIB` (2). Port 0 asks for any port of the system's
    /// ephemeral range. Two bindings of one port are possible if their addresses do not overlap, or
    /// both have `reuse` set and none listens. Blocks until the hub answers, or a new one if it
    /// dies.
    ///
    /// # Errors
    /// See [`PortBindError`]; [`PortBindError::NotRunning`] if there is no hub and none is started.
    pub fn bind(&mut self, space: u16, address: SocketAddr, options: BindOptions) -> Result<BoundPort, PortBindError> {
        let token = self.ports.new_token();
        let spec = BindSpec { space, address, reuse: options.reuse, afonly: options.afonly };
        let request = HubRequest::Bind { token, spec, listening: false, again: false };
        // A hub that answers too late has bound the port for nothing.
        let port = self.ask(token, &request).inspect_err(|_| self.send_request(&HubRequest::Unbind { token }))?;
        self.ports.add(token, spec, port);
        Ok(BoundPort { token, port })
    }

    /// From now on, requests for connections to this port are events of this session. Blocks as
    /// [`bind`](ManagerSession::bind) does.
    ///
    /// # Errors
    /// [`PortBindError::InUse`] if another binding overlaps with this one, as in Linux;
    /// [`PortBindError::UnknownToken`]; others as for binding.
    pub fn listen(&mut self, token: u64) -> Result<(), PortBindError> {
        if !self.ports.contains(token) {
            return Err(PortBindError::UnknownToken);
        }
        self.ask(token, &HubRequest::Listen { token })?;
        self.ports.set_listening(token);
        Ok(())
    }

    /// Gives a port back. Does nothing for an unknown token.
    pub fn unbind(&mut self, token: u64) {
        if self.ports.remove(token) {
            self.send_request(&HubRequest::Unbind { token });
        }
    }

    /// Leaves a closing message with the hub. The hub sends it when this process is gone without having
    /// withdrawn it. With `until_answered` it sends it once a second, five times or until a DREP with
    /// the same transaction id arrives. Replaces an earlier message with this key. Beyond 131,072
    /// messages new ones are dropped, and counted.
    pub fn set_closing_message(&mut self, key: u32, packet: &AddressedMad, until_answered: bool) {
        if !self.closing.set(key, ClosingMessage { packet: packet.clone(), until_answered }) {
            self.counters.closing_dropped += 1;
            return;
        }
        self.send_closing_message(key);
    }

    /// Withdraws a closing message, if there is one with this key.
    pub fn clear_closing_message(&mut self, key: u32) {
        if self.closing.clear(key) {
            self.send_closing_message(key);
        }
    }

    /// Tells the hub about a key's message. A new hub gets all messages anyway.
    fn send_closing_message(&mut self, key: u32) {
        if self.can_send() {
            self.outgoing.push_closing_message(key);
            self.flush();
        }
    }

    fn send_request(&mut self, request: &HubRequest) {
        if self.can_send() {
            self.outgoing.push_request(request);
            self.flush();
        }
    }

    fn can_send(&self) -> bool {
        self.is_attached() && self.hub.is_ours()
    }

    fn flush(&mut self) {
        let hub = &self.hub;
        self.outgoing.flush(&self.closing, |bytes| hub.send(bytes, &[]));
        self.hub.want_room(!self.outgoing.is_empty());
    }

    /// Asks about a port until a hub has answered. Returns the port.
    fn ask(&mut self, token: u64, request: &HubRequest) -> Result<u16, PortBindError> {
        if !self.hub.is_ours() {
            return Err(PortBindError::NotRunning);
        }
        let end = Instant::now() + ANSWER_TIMEOUT;
        let mut asked = None;
        loop {
            if self.is_attached() && asked != Some(self.generation) {
                asked = Some(self.generation);
                self.send_request(request);
            }
            let now = Instant::now();
            let wake = match self.poll_answer(token, now)? {
                Ok(answer) => return Ok(answer?),
                Err(wake) => wake,
            };
            if now >= end {
                return Err(PortBindError::TimedOut);
            }
            let until = wake.map_or(end, |wake| wake.min(end));
            self.hub.wait(until.saturating_duration_since(now))?;
        }
    }

    /// Takes in messages until the answer about a port is among them. If it is not, the inner error is the
    /// latest time for the next call, or `None` if only the descriptor matters.
    fn poll_answer(&mut self, token: u64, now: Instant) -> Result<Result<PortAnswer, Option<Instant>>, PortBindError> {
        while self.is_attached() {
            match HubMessage::receive(&self.hub) {
                Ok(Some(message)) => match self.take_in(message) {
                    Some((answered, answer)) if answered == token => return Ok(Ok(answer)),
                    _ => {}
                },
                Ok(None) => {
                    self.flush();
                    return Ok(Err(None));
                }
                Err(reason) => self.lose_hub(&reason),
            }
        }
        if !self.hub.expects_hub() {
            return Err(PortBindError::NotRunning);
        }
        Ok(Err(self.reconnect(now)))
    }

    /// Takes in a message. Returns the answer to a request about a port, if it is one.
    fn take_in(&mut self, message: HubMessage) -> Option<(u64, PortAnswer)> {
        match message {
            HubMessage::Mad(packet) => self.events.push_back(ManagerEvent::Mad(packet)),
            HubMessage::Undelivered(errno, packet) => {
                let errno = i32::try_from(errno).unwrap_or(i32::MAX);
                self.events.push_back(ManagerEvent::Undelivered { packet, errno });
            }
            HubMessage::Reply(Reply::DevicesChanged { devices }) => self.update_devices(devices),
            HubMessage::Reply(Reply::Leaving) => self.hub.hub_exits(),
            HubMessage::Reply(Reply::Bound { token, port }) => return self.take_in_answer(token, Ok(port)),
            HubMessage::Reply(Reply::NotBound { token, refusal }) => return self.take_in_answer(token, Err(refusal)),
            HubMessage::Reply(other) => log::warn!("an unexpected message of the hub: {other:?}"),
        }
        None
    }

    /// Takes in an answer about a port. The answers of a new hub about ports of the old one are not for callers.
    fn take_in_answer(&mut self, token: u64, answer: PortAnswer) -> Option<(u64, PortAnswer)> {
        if !self.ports.take_unconfirmed(token) {
            return Some((token, answer));
        }
        if let Err(refusal) = answer
            && self.ports.remove(token)
        {
            log::warn!("another process has taken a port: {refusal:?}");
            self.events.push_back(ManagerEvent::BindingLost { token });
        }
        None
    }

    /// Only the latest list of the devices matters: older events about them are dropped.
    fn update_devices(&mut self, devices: Vec<DeviceRecord>) {
        if devices == self.devices {
            return;
        }
        self.devices.clone_from(&devices);
        self.events.retain(|event| !matches!(event, ManagerEvent::DevicesChanged(_)));
        self.events.push_back(ManagerEvent::DevicesChanged(devices));
    }

    /// The connection is gone: begins to connect to a new hub.
    fn lose_hub(&mut self, reason: &str) {
        log::info!("lost the hub ({reason})");
        self.events.push_back(ManagerEvent::HubLost);
        self.outgoing.clear();
        let request = HubRequest::Manage { number: Some(self.number) };
        if let Err(error) = self.hub.reconnect(request, Vec::new()) {
            log::error!("cannot look for a new hub: {error}");
            self.hub.give_up();
        }
    }

    /// Continues to connect to a new hub.
    fn reconnect(&mut self, now: Instant) -> Option<Instant> {
        match self.hub.advance(now) {
            Ok(Some(answer)) => self.reattached(answer),
            Ok(None) | Err(AttachError::NotRunning) => {}
            Err(error) => log::warn!("no hub yet: {error}"),
        }
        self.hub.wake_after_advance(now)
    }

    /// Tells a new hub about all ports and closing messages.
    fn reattached(&mut self, answer: HubAnswer) {
        let Reply::Managing { number, devices } = answer.reply else {
            return log::warn!("unexpected reply {:?}", answer.reply);
        };
        assert!(self.outgoing.is_empty(), "without a hub nothing is queued");
        self.hub.reconnected(answer.socket);
        self.generation += 1;
        self.events.push_back(ManagerEvent::Reattached);
        if number != self.number {
            self.number = number;
            self.events.push_back(ManagerEvent::Renumbered(number));
        }
        self.ports.bind_again().iter().for_each(|request| self.outgoing.push_request(request));
        self.closing.keys().for_each(|key| self.outgoing.push_closing_message(key));
        self.update_devices(devices);
        self.flush();
    }
}

impl Drop for ManagerSession {
    /// Sends the messages that wait, if the hub reads them in time.
    fn drop(&mut self) {
        if !self.hub.is_ours() {
            return;
        }
        let end = Instant::now() + FLUSH_TIMEOUT;
        loop {
            self.flush();
            let left = end.saturating_duration_since(Instant::now());
            if self.outgoing.is_empty() || !self.is_attached() || left.is_zero() {
                return;
            }
            // The hub reads only from clients that read its own messages.
            while let Ok(Some(_)) = self.hub.receive() {}
            if self.hub.wait(left).is_err() {
                return;
            }
        }
    }
}

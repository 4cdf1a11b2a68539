//! A process's session with the hub for managing connections: MADs, ports and wills.
//!
//! ```no_run
//! use longarm_hub::client::{AttachOptions, manager};
//! use std::time::Instant;
//!
//! let mut session = manager::manage(&AttachOptions::default())?;
//! let options = manager::BindOptions::default();
//! let binding = session.bind(0x0106, "0.0.0.0:7471".parse()?, options)?;
//! session.listen(binding.token)?;
//! // Whenever `session.poll_fd()` is readable:
//! let wake_at_the_latest = session.maintain(Instant::now());
//! while let Some(event) = session.next_event() {
//!     println!("{event:?}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! After the hub's death the session finds or starts another one and repeats there what it had:
//! its number, ports and wills.
//!
//! What this module does not do: it does not look into MADs.

mod error;
mod outgoing;
mod wills;

pub use crate::mad::MadPacket;
pub use error::BindError;

use super::approach::Answered;
use super::attachment::{ANSWER_PATIENCE, Attachment};
use super::query::unexpected;
use super::{AttachError, AttachOptions};
use crate::channel::Parcel;
use crate::mad::{Frame, Will};
use crate::message::{BindRefusal, BindWish, Reply, Request};
use crate::record::DeviceRecord;
use outgoing::Outgoing;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use wills::Wills;

/// Messages of the hub that one call of [`ManagerSession::maintain`] reads.
const MAX_MESSAGES: usize = 512;

/// How long a session that ends may take to say what it has still to say.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// What happened, from [`ManagerSession::next_event`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all events are MADs")]
pub enum ManagerEvent {
    /// A MAD arrived.
    Mad(MadPacket),
    /// Addresses, MTU or link state changed; here is the whole new list.
    DevicesChanged(Vec<DeviceRecord>),
    /// The hub is gone. The session looks for a new one; MADs are lost until then.
    HubLost,
    /// A new hub knows this process, with what it had.
    Reattached,
    /// The process has another number, for communication ids made from now on: its old one had
    /// been given away when it came back.
    Renumbered(u16),
    /// A port had been given away when the process came back to a new hub. Its token means
    /// nothing any more.
    BindingLost {
        /// The port's token.
        token: u64,
    },
}

/// How to bind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BindOptions {
    /// `RDMA_OPTION_ID_REUSEADDR`: shares the port with others that have this set, as long as
    /// nobody listens.
    pub reuse: bool,
    /// `RDMA_OPTION_ID_AFONLY`: the unspecified IPv6 address does not stand for IPv4, too.
    pub afonly: bool,
}

/// A port of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its name for [`ManagerSession::listen`] and [`ManagerSession::unbind`]. Never used again.
    pub token: u64,
    /// The port.
    pub port: u16,
}

/// A port as a new hub must know it.
#[derive(Clone, Copy, Debug)]
struct Held {
    wish: BindWish,
    listening: bool,
}

/// What the session has given up, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagerCounters {
    /// MADs not sent because there was no hub, or it did not read.
    pub mads_dropped: u64,
    /// Wills not kept since there were too many (131,072).
    pub wills_dropped: u64,
}

/// A session for managing connections. Dropping it gives its ports back, and has its wills
/// carried out that were not withdrawn.
///
/// The owner watches [`poll_fd`](ManagerSession::poll_fd) (the same for the session's whole life)
/// and calls [`maintain`](ManagerSession::maintain) when it is readable and when the time that
/// `maintain` returned has come; then it takes the [events](ManagerSession::next_event). Only
/// [`bind`](ManagerSession::bind) and [`listen`](ManagerSession::listen) block.
///
/// All descriptors are closed on `exec`. In a child made by `fork` alone nothing works, and
/// nothing that it does disturbs the parent.
#[derive(Debug)]
pub struct ManagerSession {
    attachment: Attachment,
    number: u16,
    devices: Vec<DeviceRecord>,
    events: VecDeque<ManagerEvent>,
    outgoing: Outgoing,
    bindings: BTreeMap<u64, Held>,
    wills: Wills,
    /// Ports that a new hub was told of and has not answered about yet.
    unconfirmed: BTreeSet<u64>,
    next_token: u64,
    /// Counts the hubs that this session has had.
    hub: u64,
    counters: ManagerCounters,
}

/// Registers this process with the hub as one that manages connections. Of the options, those
/// about slots and counters are not looked at.
///
/// Blocks for some milliseconds if the hub has to be started, else for microseconds.
///
/// # Errors
/// See [`AttachError`]; `NoSlot` if 4095 processes manage connections already.
pub fn manage(options: &AttachOptions) -> Result<ManagerSession, AttachError> {
    let (attachment, reply, _) = Attachment::open(options, Request::Manage { number: None }, Vec::new())?;
    let Reply::Managing { number, devices } = reply else { return Err(unexpected(&reply)) };
    Ok(ManagerSession {
        attachment,
        number,
        devices,
        events: VecDeque::new(),
        outgoing: Outgoing::default(),
        bindings: BTreeMap::new(),
        wills: Wills::default(),
        unconfirmed: BTreeSet::new(),
        next_token: 0,
        hub: 0,
        counters: ManagerCounters::default(),
    })
}

impl ManagerSession {
    /// The process's number, 1 to 4095: the high 12 bits of its communication ids.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The devices as last heard.
    pub fn devices(&self) -> &[DeviceRecord] {
        &self.devices
    }

    /// Whether a hub knows this process at the moment, as far as the session has noticed.
    pub fn is_attached(&self) -> bool {
        self.attachment.is_attached()
    }

    /// What the session has given up so far.
    pub fn counters(&self) -> ManagerCounters {
        self.counters
    }

    /// Readable when [`maintain`](ManagerSession::maintain) has something to do.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.attachment.poll_fd()
    }

    /// Takes the oldest event.
    pub fn next_event(&mut self) -> Option<ManagerEvent> {
        self.events.pop_front()
    }

    /// Reads what the hub sent, says what is still to be said, finds or starts a new hub if the
    /// old one is gone, and returns when it wants to be called again at the latest; `None` if
    /// only [`poll_fd`](ManagerSession::poll_fd) matters.
    ///
    /// Takes microseconds, and about a millisecond when it starts a hub.
    pub fn maintain(&mut self, now: Instant) -> Option<Instant> {
        if !self.attachment.is_ours() {
            return None;
        }
        for _ in 0..MAX_MESSAGES {
            if !self.is_attached() {
                return self.seek(now);
            }
            match self.receive() {
                Ok(Some(heard)) => drop(self.hear(heard)),
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

    /// Sends a MAD from QP1. Never blocks; the MAD is lost, and counted, while no hub is there or
    /// too many wait to be sent, and lost if its local address is not this host's.
    pub fn send_mad(&mut self, packet: &MadPacket) {
        let takes = self.is_attached() && self.attachment.is_ours();
        if takes && self.outgoing.mad(packet) {
            self.flush();
        } else {
            self.counters.mads_dropped += 1;
        }
    }

    /// Binds a port of a port space (`RDMA_PS_TCP` 0x0106, `RDMA_PS_UDP` 0x0111, `RDMA_PS_IB`
    /// 0x013f, `RDMA_PS_IPOIB` 2) to an address of this host, or to all of them if it is
    /// unspecified. Port 0 asks for any port of the system's ephemeral range. Two
    /// bindings of one port are possible if their addresses do not overlap, or both have `reuse`
    /// set and nobody listens. Blocks until the hub answers, or a new one if it dies.
    ///
    /// # Errors
    /// See [`BindError`]; [`BindError::NotRunning`] if no hub is there and none is started.
    pub fn bind(&mut self, space: u16, address: SocketAddr, options: BindOptions) -> Result<Binding, BindError> {
        let token = self.next_token;
        self.next_token += 1;
        let wish = BindWish { space, address, reuse: options.reuse, afonly: options.afonly };
        let port = self.ask(token, &Request::Bind { token, wish, listening: false, again: false })?;
        let mut wish = wish;
        wish.address.set_port(port);
        self.bindings.insert(token, Held { wish, listening: false });
        Ok(Binding { token, port })
    }

    /// From now on requests for connections to this port are events of this session. Blocks as
    /// [`bind`](ManagerSession::bind) does.
    ///
    /// # Errors
    /// [`BindError::InUse`] if another binding overlaps with this one, as Linux has it;
    /// [`BindError::UnknownToken`]; others as for binding.
    pub fn listen(&mut self, token: u64) -> Result<(), BindError> {
        if !self.bindings.contains_key(&token) {
            return Err(BindError::UnknownToken);
        }
        self.ask(token, &Request::Listen { token })?;
        if let Some(held) = self.bindings.get_mut(&token) {
            held.listening = true;
        }
        Ok(())
    }

    /// Gives a port back. Does nothing for a token that is none.
    pub fn unbind(&mut self, token: u64) {
        if self.bindings.remove(&token).is_some() {
            self.tell(&Request::Unbind { token });
        }
    }

    /// Leaves a MAD with the hub that it sends when this process is gone without having
    /// withdrawn it; with `until_answered` once a second, five times or until a DREP with the same
    /// transaction id arrives. Replaces an earlier one with this key. Beyond 131,072 wills new
    /// ones are not kept, and counted.
    pub fn set_will(&mut self, key: u32, packet: &MadPacket, until_answered: bool) {
        if !self.wills.set(key, Will { packet: packet.clone(), until_answered }) {
            self.counters.wills_dropped += 1;
            return;
        }
        self.tell_will(key);
    }

    /// Withdraws a will, if there is one with this key.
    pub fn clear_will(&mut self, key: u32) {
        if self.wills.clear(key) {
            self.tell_will(key);
        }
    }

    /// Without a hub there is nobody to tell: a new one hears of everything.
    fn tell_will(&mut self, key: u32) {
        if self.is_attached() && self.attachment.is_ours() {
            self.outgoing.will(key);
            self.flush();
        }
    }

    fn tell(&mut self, request: &Request) {
        if self.is_attached() && self.attachment.is_ours() {
            self.outgoing.request(request.encode());
            self.flush();
        }
    }

    fn flush(&mut self) {
        let attachment = &self.attachment;
        self.outgoing.flush(&self.wills, |bytes| attachment.send(bytes));
        self.attachment.want_room(!self.outgoing.is_empty());
    }

    /// Asks about a port until a hub has answered. Returns the port.
    fn ask(&mut self, token: u64, request: &Request) -> Result<u16, BindError> {
        if !self.attachment.is_ours() {
            return Err(BindError::NotRunning);
        }
        let end = Instant::now() + ANSWER_PATIENCE;
        let mut told = None;
        loop {
            if self.is_attached() && told != Some(self.hub) {
                told = Some(self.hub);
                self.tell(request);
            }
            let now = Instant::now();
            match self.answer(token, now)? {
                Answer::Now(Ok(port)) => return Ok(port),
                Answer::Now(Err(refusal)) => return Err(refusal.into()),
                Answer::Later(_) if now >= end => return Err(BindError::TimedOut),
                Answer::Later(wake) => {
                    let until = wake.map_or(end, |wake| wake.min(end));
                    self.attachment.wait(until.saturating_duration_since(now))?;
                }
            }
        }
    }

    /// Hears what there is until the answer about a port is among it.
    fn answer(&mut self, token: u64, now: Instant) -> Result<Answer, BindError> {
        while self.is_attached() {
            match self.receive() {
                Ok(Some(heard)) => match self.hear(heard) {
                    Some((about, outcome)) if about == token => return Ok(Answer::Now(outcome)),
                    _ => {}
                },
                Ok(None) => {
                    self.flush();
                    return Ok(Answer::Later(None));
                }
                Err(reason) => self.lose_hub(&reason),
            }
        }
        if !self.attachment.expects_hub() {
            return Err(BindError::NotRunning);
        }
        Ok(Answer::Later(self.seek(now)))
    }

    /// The next message of the hub, if there is one.
    fn receive(&self) -> Result<Option<Heard>, String> {
        let Some(Parcel { bytes, mut descriptors }) = self.attachment.receive()? else { return Ok(None) };
        if !Frame::is_frame(&bytes) {
            let reply = Reply::decode(&bytes, &mut descriptors).map_err(|error| error.to_string())?;
            return Ok(Some(Heard::Reply(reply)));
        }
        match Frame::decode(&bytes) {
            Some(Frame::Mad(packet)) => Ok(Some(Heard::Mad(packet))),
            _ => Err("it sent a frame that makes no sense".into()),
        }
    }

    /// Takes in a message. Returns the answer about a port, if that is what it is.
    fn hear(&mut self, heard: Heard) -> Option<(u64, PortAnswer)> {
        match heard {
            Heard::Mad(packet) => self.events.push_back(ManagerEvent::Mad(packet)),
            Heard::Reply(Reply::DevicesChanged { devices }) => self.update_devices(devices),
            Heard::Reply(Reply::Leaving) => self.attachment.leaving(),
            Heard::Reply(Reply::Bound { token, port }) => return self.about_port(token, Ok(port)),
            Heard::Reply(Reply::NotBound { token, refusal }) => return self.about_port(token, Err(refusal)),
            Heard::Reply(other) => log::warn!("the hub said unasked: {other:?}"),
        }
        None
    }

    /// An answer about a port. That of a new hub to what it was told unasked is nobody else's.
    fn about_port(&mut self, token: u64, outcome: PortAnswer) -> Option<(u64, PortAnswer)> {
        if !self.unconfirmed.remove(&token) {
            return Some((token, outcome));
        }
        if let Err(refusal) = outcome
            && self.bindings.remove(&token).is_some()
        {
            log::warn!("a port went to somebody else: {refusal:?}");
            self.events.push_back(ManagerEvent::BindingLost { token });
        }
        None
    }

    /// Only the last state of the devices is of interest.
    fn update_devices(&mut self, devices: Vec<DeviceRecord>) {
        if devices == self.devices {
            return;
        }
        self.devices.clone_from(&devices);
        self.events.retain(|event| !matches!(event, ManagerEvent::DevicesChanged(_)));
        self.events.push_back(ManagerEvent::DevicesChanged(devices));
    }

    /// The connection is gone; begins to look for a new hub.
    fn lose_hub(&mut self, reason: &str) {
        log::info!("lost the hub ({reason})");
        self.events.push_back(ManagerEvent::HubLost);
        self.outgoing.clear();
        let request = Request::Manage { number: Some(self.number) };
        if let Err(error) = self.attachment.look_for_another(request, Vec::new()) {
            log::error!("cannot look for a new hub: {error}");
            self.attachment.give_up();
        }
    }

    /// Goes on looking for a hub.
    fn seek(&mut self, now: Instant) -> Option<Instant> {
        match self.attachment.seek(now) {
            Ok(Some(answered)) => self.reattached(answered),
            Ok(None) | Err(AttachError::NotRunning) => {}
            Err(error) => log::warn!("no hub yet: {error}"),
        }
        self.attachment.wake_after_seeking(now)
    }

    /// Tells a new hub everything.
    fn reattached(&mut self, answered: Answered) {
        let Reply::Managing { number, devices } = answered.reply else {
            return log::warn!("unexpected reply {:?}", answered.reply);
        };
        self.attachment.found(answered.socket);
        self.hub += 1;
        self.events.push_back(ManagerEvent::Reattached);
        if number != self.number {
            self.number = number;
            self.events.push_back(ManagerEvent::Renumbered(number));
        }
        self.unconfirmed = self.bindings.keys().copied().collect();
        for (token, held) in &self.bindings {
            let (token, wish, listening) = (*token, held.wish, held.listening);
            self.outgoing.request(Request::Bind { token, wish, listening, again: true }.encode());
        }
        for key in self.wills.keys() {
            self.outgoing.will(key);
        }
        self.update_devices(devices);
        self.flush();
    }
}

impl Drop for ManagerSession {
    /// What is still to be said is said, if the hub reads.
    fn drop(&mut self) {
        if !self.attachment.is_ours() {
            return;
        }
        let end = Instant::now() + LAST_WORDS;
        loop {
            self.flush();
            let left = end.saturating_duration_since(Instant::now());
            if self.outgoing.is_empty() || !self.is_attached() || left.is_zero() {
                return;
            }
            // The hub listens only to those who hear it.
            while let Ok(Some(_)) = self.attachment.receive() {}
            if self.attachment.wait(left).is_err() {
                return;
            }
        }
    }
}

/// A message of the hub.
#[expect(clippy::large_enum_variant, reason = "nearly all messages are MADs")]
enum Heard {
    Mad(MadPacket),
    Reply(Reply),
}

/// The port, or why not.
type PortAnswer = Result<u16, BindRefusal>;

/// Whether there is an answer about a port.
enum Answer {
    Now(PortAnswer),
    /// Not before this time, or something can be read.
    Later(Option<Instant>),
}

//! A process's session with the hub for managing connections: MADs, ports and closing messages.
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
//! its number, ports and closing messages.
//!
//! What this module does not do: it does not look into MADs.

mod asking;
mod error;
mod hearing;
mod outgoing;
mod types;

pub use crate::mad::MadPacket;
pub use error::BindError;
pub use types::{BindOptions, Binding, ManagerCounters, ManagerEvent};

use super::attachment::Attachment;
use super::query::unexpected;
use super::{AttachError, AttachOptions};
use crate::closing_messages::ClosingMessages;
use crate::mad::ClosingMessage;
use crate::message::{BindSpec, Reply, Request};
use crate::record::DeviceRecord;
use outgoing::Outgoing;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Messages of the hub that one call of [`ManagerSession::maintain`] reads.
const MAX_MESSAGES: usize = 512;

/// How long a session that ends may take to say what it has still to say.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// A port as a new hub must know it.
#[derive(Clone, Copy, Debug)]
struct Held {
    spec: BindSpec,
    listening: bool,
}

/// A session for managing connections. Dropping it gives its ports back, and has its closing messages
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
    closing: ClosingMessages,
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
        closing: ClosingMessages::default(),
        unconfirmed: BTreeSet::new(),
        next_token: 0,
        hub: 0,
        counters: ManagerCounters::default(),
    })
}

impl ManagerSession {
    /// A forked child goes on with the session of its parent, which has ended, as the hub knows by now: it attaches
    /// itself in its place, and asks for what the parent had.
    pub fn take_over(&mut self) {
        self.attachment.take_over();
        self.lose_hub("it was this process's parent's");
    }

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
        let spec = BindSpec { space, address, reuse: options.reuse, afonly: options.afonly };
        let request = Request::Bind { token, spec, listening: false, again: false };
        // A hub that answers too late has given the port away for nothing.
        let port = self.ask(token, &request).inspect_err(|_| self.tell(&Request::Unbind { token }))?;
        let mut spec = spec;
        spec.address.set_port(port);
        self.bindings.insert(token, Held { spec, listening: false });
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
    /// transaction id arrives. Replaces an earlier one with this key. Beyond 131,072 closing messages new
    /// ones are not kept, and counted.
    pub fn set_closing_message(&mut self, key: u32, packet: &MadPacket, until_answered: bool) {
        if !self.closing.set(key, ClosingMessage { packet: packet.clone(), until_answered }) {
            self.counters.closing_dropped += 1;
            return;
        }
        self.tell_will(key);
    }

    /// Withdraws a closing message, if there is one with this key.
    pub fn clear_closing_message(&mut self, key: u32) {
        if self.closing.clear(key) {
            self.tell_will(key);
        }
    }

    /// Without a hub there is nobody to tell: a new one hears of everything.
    fn tell_will(&mut self, key: u32) {
        if self.is_attached() && self.attachment.is_ours() {
            self.outgoing.closing_message(key);
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
        self.outgoing.flush(&self.closing, |bytes| attachment.send(bytes, &[]));
        self.attachment.want_room(!self.outgoing.is_empty());
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

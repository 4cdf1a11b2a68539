//! A process's session with the hub.

use super::connector::HubAnswer;
use super::error::AttachError;
use super::hub_connection::{ANSWER_TIMEOUT, HubConnection};
use super::introductions::{Introduction, IntroductionOutcome, IntroductionRequests, is_introduction};
use super::introductions::{ShmLinkOffer, ShmOffer};
use super::options::AttachOptions;
use crate::channel::{ReceiveError, ReceivedMessage};
use crate::counters::CounterPage;
use crate::message::{ErrorCode, HubRequest, IntroductionRefusal, Reply};
use crate::record::DeviceRecord;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// A slot of the UDP port: packets to QPNs with this high byte arrive at this socket.
#[derive(Debug)]
pub struct SlotSocket {
    /// The high byte of the QPNs; never 0.
    pub number: u8,
    /// The socket, a copy of which ([`try_clone`](OwnedFd::try_clone)) is for `udp::RxSocket::new`.
    /// The session needs the original to reattach.
    pub socket: OwnedFd,
}

/// An event of [`Session::next_event`].
#[derive(Debug)]
pub enum SessionEvent {
    /// Addresses, MTU or link state changed: the whole new list.
    DevicesChanged(Vec<DeviceRecord>),
    /// The hub is gone. Packets still arrive; the session looks for a new hub.
    HubLost,
    /// A new hub knows this process, with the slots it had.
    Reattached,
    /// This process and another one were introduced to each other, at the request of either.
    Introduced(Introduction),
    /// This process asked for an introduction that was not made.
    NotIntroduced {
        /// The slot that it asked for.
        slot: u8,
        /// The hub's reason.
        reason: IntroductionRefusal,
    },
    /// The session is over for good: the hub does not let this process keep its slots.
    Detached {
        /// The hub's reason.
        reason: String,
    },
}

/// A process's session with the hub. Dropping it gives its slots back.
///
/// The owner waits on [`poll_fd`](Session::poll_fd), which never changes. It calls [`maintain`](Session::maintain) when
/// that is readable and at the time that `maintain` has returned; then it takes the [events](Session::next_event). No
/// call but
/// [`more_slots`](Session::more_slots) and [`release_slot`](Session::release_slot) blocks.
///
/// All descriptors are closed on `exec`. In a child made by `fork` alone `maintain` does nothing.
/// The hub notices the end of the process that attached even if such a child lives on.
#[derive(Debug)]
pub struct Session {
    hub: HubConnection,
    slots: Vec<SlotSocket>,
    devices: Vec<DeviceRecord>,
    events: VecDeque<SessionEvent>,
    introductions: IntroductionRequests,
    keeper: OwnedFd,
    counters: Option<Arc<CounterPage>>,
    shm: Option<ShmOffer>,
}

impl Session {
    /// The number of the first slot: the high byte of this process's QPNs.
    pub fn slot(&self) -> u8 {
        self.slots[0].number
    }

    /// All slots; the first one stays as long as the session.
    pub fn slots(&self) -> &[SlotSocket] {
        &self.slots
    }

    /// The devices as the hub last reported them.
    pub fn devices(&self) -> &[DeviceRecord] {
        &self.devices
    }

    /// Whether a hub knows this process, as far as the session has noticed.
    pub fn is_attached(&self) -> bool {
        self.hub.is_attached()
    }

    /// Readable when [`maintain`](Session::maintain) has something to do.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.hub.poll_fd()
    }

    /// Takes the oldest event.
    pub fn next_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// Reads the hub's messages, and finds or starts a new hub if the old one is gone. Returns
    /// the latest time for the next call; `None` if only [`poll_fd`](Session::poll_fd) matters.
    ///
    /// Takes microseconds, and about a millisecond when it starts a hub.
    pub fn maintain(&mut self, now: Instant) -> Option<Instant> {
        if !self.hub.is_ours() {
            return None;
        }
        while self.is_attached() {
            match self.receive() {
                Ok(Some((reply, descriptors))) => self.take_in(reply, descriptors),
                Ok(None) => return None,
                Err(error) => self.lose_hub(&error),
            }
        }
        self.advance(now)
    }

    /// Asks the hub to introduce this process to the one that has `slot`, and to give that one the
    /// link. Does not wait. The answer is an event for this slot:
    /// [`SessionEvent::Introduced`] by [`ThisProcess`](super::RequestedBy::ThisProcess), or
    /// [`SessionEvent::NotIntroduced`]. Every call that returned `Ok` gets one, unless the session is dropped before.
    ///
    /// The hub introduces only processes of the same user that both attached with a [`ShmOffer`].
    /// It introduces two of them only once as long as both stay attached. If both ask at the same
    /// time, one gets an introduction by the [`Peer`](super::RequestedBy::Peer) and then
    /// [`IntroductionRefusal::Already`]; the other one gets its own. A new hub does not know the
    /// introductions of a dead one: the asked process must then refuse the second link.
    ///
    /// # Errors
    /// [`AttachError::NotRunning`] while there is no hub, or in a forked child;
    /// [`AttachError::System`] if the hub does not read (`EAGAIN`) or as `sendmsg(2)`.
    pub fn introduce(&mut self, slot: u8, offer: ShmLinkOffer) -> Result<(), AttachError> {
        if !self.hub.is_ours() || !self.is_attached() {
            return Err(AttachError::NotRunning);
        }
        self.introductions.send(&self.hub, slot, &offer)
    }

    /// Asks for `count` more slots, to receive on more cores. Blocks until the hub answers. Returns the new slots, which
    /// are also in [`slots`](Session::slots).
    ///
    /// # Errors
    /// [`AttachError::NotRunning`] while there is no hub; others by their description. On an error no
    /// slot is added.
    pub fn more_slots(&mut self, count: u8) -> Result<&[SlotSocket], AttachError> {
        let (reply, descriptors) = self.ask(&HubRequest::MoreSlots { count })?;
        let Reply::Slots { slots } = reply else { return Err(AttachError::unexpected(&reply)) };
        if slots.len() != usize::from(count) || descriptors.len() != slots.len() {
            return Err(AttachError::protocol("slots and sockets are not the same number"));
        }
        let before = self.slots.len();
        let both = slots.into_iter().zip(descriptors);
        self.slots.extend(both.map(|(number, socket)| SlotSocket { number, socket }));
        Ok(&self.slots[before..])
    }

    /// Gives one of several slots back. Blocks until the hub answers.
    ///
    /// # Errors
    /// [`AttachError::Refused`] for the only slot, or one that is not this process's;
    /// [`AttachError::NotRunning`] while there is no hub; others by their description.
    pub fn release_slot(&mut self, number: u8) -> Result<(), AttachError> {
        let (reply, _) = self.ask(&HubRequest::Release { slot: number })?;
        if reply != Reply::Done {
            return Err(AttachError::unexpected(&reply));
        }
        self.slots.retain(|slot| slot.number != number);
        Ok(())
    }

    /// Sends one request and waits for the answer. Takes in the messages before it.
    fn ask(&mut self, request: &HubRequest) -> Result<(Reply, Vec<OwnedFd>), AttachError> {
        if !self.is_attached() {
            return Err(AttachError::NotRunning);
        }
        let failed = |source| AttachError::System { what: "ask the hub", source };
        self.hub.send(&request.encode(), &[]).map_err(failed)?;
        let end = Instant::now() + ANSWER_TIMEOUT;
        loop {
            match self.receive() {
                Ok(Some((reply, descriptors))) if !is_awaited(&reply) => self.take_in(reply, descriptors),
                Ok(Some((Reply::Error { code, reason }, _))) => return Err(AttachError::from_reply(code, reason)),
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(AttachError::TimedOut { doing: "waiting for the hub's answer" });
                    }
                    self.hub.wait(left)?;
                }
                Err(reason) => {
                    self.lose_hub(&reason);
                    return Err(AttachError::NotRunning);
                }
            }
        }
    }

    fn receive(&self) -> Result<Option<(Reply, Vec<OwnedFd>)>, String> {
        let Some(ReceivedMessage { bytes, mut descriptors, is_cut, .. }) = self.hub.receive()? else {
            return Ok(None);
        };
        let reply = Reply::decode(&bytes, &mut descriptors).map_err(|error| error.to_string())?;
        // A process without room for more descriptors gets no introductions.
        if is_cut && !is_introduction(&reply) {
            return Err(ReceiveError::NoDescriptorsLeft.to_string());
        }
        Ok(Some((reply, descriptors)))
    }

    /// Takes in a message that is not the answer to [`ask`](Session::ask).
    fn take_in(&mut self, reply: Reply, descriptors: Vec<OwnedFd>) {
        match reply {
            Reply::DevicesChanged { devices } => self.update_devices(devices),
            Reply::Leaving => self.hub.hub_exits(),
            other if is_introduction(&other) => {
                let outcome = self.introductions.take_in(other, descriptors);
                outcome.into_iter().for_each(|outcome| self.report_introduction(outcome));
            }
            other => log::warn!("an unexpected message of the hub: {other:?}"),
        }
    }

    fn report_introduction(&mut self, outcome: IntroductionOutcome) {
        self.events.push_back(match outcome {
            Ok(introduction) => SessionEvent::Introduced(introduction),
            Err((slot, reason)) => SessionEvent::NotIntroduced { slot, reason },
        });
    }

    /// Only the latest list of the devices matters: older events about them are dropped.
    fn update_devices(&mut self, devices: Vec<DeviceRecord>) {
        if devices == self.devices {
            return;
        }
        self.devices.clone_from(&devices);
        self.events.retain(|event| !matches!(event, SessionEvent::DevicesChanged(_)));
        self.events.push_back(SessionEvent::DevicesChanged(devices));
    }

    /// The connection is gone: begins to connect to a new hub.
    fn lose_hub(&mut self, reason: &str) {
        log::info!("lost the hub ({reason})");
        for slot in self.introductions.take_all() {
            self.report_introduction(Err((slot, IntroductionRefusal::HubLost)));
        }
        self.events.push_back(SessionEvent::HubLost);
        if let Err(error) = self.reconnect() {
            self.detach(format!("cannot look for a new hub: {error}"));
        }
    }

    fn reconnect(&mut self) -> io::Result<()> {
        let keeper = guest::copy(&self.keeper);
        let sockets = self.slots.iter().map(|slot| guest::copy(&slot.socket));
        let mut descriptors = [keeper].into_iter().chain(sockets).collect::<io::Result<Vec<_>>>()?;
        descriptors.extend(descriptors_for_hub(self.counters.as_deref(), self.shm.as_ref())?);
        let slots = self.slots.iter().map(|slot| slot.number).collect();
        let request = HubRequest::Reattach { slots, counters: self.counters.is_some(), shm: self.shm.is_some() };
        self.hub.reconnect(request, descriptors)
    }

    /// Continues to connect to a new hub.
    fn advance(&mut self, now: Instant) -> Option<Instant> {
        match self.hub.advance(now) {
            Ok(Some(answered)) => self.reattached(answered),
            Ok(None) => {}
            Err(AttachError::Refused { code: ErrorCode::NotYours, reason }) => self.detach(reason),
            Err(AttachError::NotRunning) => {}
            Err(error) => log::warn!("no hub yet: {error}"),
        }
        self.hub.wake_after_advance(now)
    }

    fn reattached(&mut self, answered: HubAnswer) {
        let Reply::Attached { devices, .. } = answered.reply else {
            return log::warn!("unexpected reply {:?}", answered.reply);
        };
        if let Some(keeper) = answered.descriptors.into_iter().next() {
            self.keeper = keeper;
        }
        self.hub.reconnected(answered.socket);
        self.events.push_back(SessionEvent::Reattached);
        self.update_devices(devices);
    }

    fn detach(&mut self, reason: String) {
        self.hub.give_up();
        self.events.push_back(SessionEvent::Detached { reason });
    }
}

/// Attaches this process to the hub of its user and network namespace.
///
/// Blocks for some milliseconds if the hub has to be started, else for microseconds.
///
/// # Errors
/// See [`AttachError`].
pub fn attach(options: &AttachOptions) -> Result<Session, AttachError> {
    let failed = |source| AttachError::System { what: "attach to the hub", source };
    let counters = options.counters.clone().filter(|page| page.file().is_some());
    let shm = options.shm.clone();
    let descriptors = descriptors_for_hub(counters.as_deref(), shm.as_ref()).map_err(failed)?;
    let request = HubRequest::Attach { slot: options.slot, counters: counters.is_some(), shm: shm.is_some() };
    let (hub, reply, descriptors) = HubConnection::open(options, request, descriptors)?;
    let (number, devices) = match reply {
        Reply::Attached { slots, devices } if slots.len() == 1 => (slots[0], devices),
        other => return Err(AttachError::unexpected(&other)),
    };
    let [keeper, socket]: [OwnedFd; 2] =
        descriptors.try_into().map_err(|_| AttachError::protocol("no keeper and no socket came with the slot"))?;
    Ok(Session {
        hub,
        slots: vec![SlotSocket { number, socket }],
        devices,
        events: VecDeque::new(),
        introductions: IntroductionRequests::default(),
        keeper,
        counters,
        shm,
    })
}

/// Copies of the descriptors that the hub keeps for this process.
fn descriptors_for_hub(counters: Option<&CounterPage>, shm: Option<&ShmOffer>) -> io::Result<Vec<OwnedFd>> {
    let page = counters.and_then(CounterPage::file).map(guest::copy).transpose()?;
    let offer = shm.map(ShmOffer::copies).transpose()?;
    Ok(page.into_iter().chain(offer.into_iter().flatten()).collect())
}

/// Whether a message may be the answer to [`Session::ask`].
fn is_awaited(reply: &Reply) -> bool {
    !matches!(reply, Reply::DevicesChanged { .. } | Reply::Leaving) && !is_introduction(reply)
}

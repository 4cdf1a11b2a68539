//! A process's session with the hub.

use super::approach::Answered;
use super::attachment::{ANSWER_PATIENCE, Attachment};
use super::query::unexpected;
use super::{AttachError, AttachOptions, Introduction, IntroductionRefusal, ShmOffer};
use crate::channel::{ReceiveError, ReceivedMessage};
use crate::counters::CounterPage;
use crate::message::{ErrorCode, Reply, Request};
use crate::record::DeviceRecord;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

/// A share of the UDP port: destination QPNs with this high byte arrive at this socket.
#[derive(Debug)]
pub struct Slot {
    /// The high byte of the QPNs, never 0.
    pub number: u8,
    /// The socket, for `udp::RxSocket::new`. Give it a copy
    /// ([`try_clone`](OwnedFd::try_clone)): the session needs the original to reattach.
    pub socket: OwnedFd,
}

/// What happened, from [`Session::next_event`].
#[derive(Debug)]
pub enum SessionEvent {
    /// Addresses, MTU or link state changed; here is the whole new list.
    DevicesChanged(Vec<DeviceRecord>),
    /// The hub is gone. Packets keep flowing; the session looks for a new one.
    HubLost,
    /// A new hub knows this process, with the slots it had.
    Reattached,
    /// This process and another one were introduced to each other, whoever asked.
    Introduced(Introduction),
    /// This process asked for an introduction that was not made.
    NotIntroduced {
        /// The slot that it asked for.
        slot: u8,
        /// Why not.
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
/// The owner watches [`poll_fd`](Session::poll_fd) (it is the same for the session's whole
/// life) and calls [`maintain`](Session::maintain) when it is readable and when the time that
/// `maintain` returned has come; then it takes the [events](Session::next_event). No call but
/// [`more_slots`](Session::more_slots) and [`release_slot`](Session::release_slot) blocks.
///
/// All descriptors are closed on `exec`. In a child made by `fork` alone `maintain` does
/// nothing, and the hub notices the end of the process that attached even if such a child
/// lives on.
#[derive(Debug)]
pub struct Session {
    pub(super) attachment: Attachment,
    slots: Vec<Slot>,
    devices: Vec<DeviceRecord>,
    pub(super) events: VecDeque<SessionEvent>,
    /// The slots of introductions that the hub has not answered yet, in order.
    pub(super) introducing: VecDeque<u8>,
    keeper: OwnedFd,
    counters: Option<Arc<CounterPage>>,
    shm: Option<ShmOffer>,
}

impl Session {
    /// The first slot's number: the high byte of this process's QPNs.
    pub fn slot(&self) -> u8 {
        self.slots[0].number
    }

    /// All slots; the first one is there as long as the session.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The devices as last heard.
    pub fn devices(&self) -> &[DeviceRecord] {
        &self.devices
    }

    /// Whether a hub knows this process at the moment, as far as the session has noticed.
    pub fn is_attached(&self) -> bool {
        self.attachment.is_attached()
    }

    /// Readable when [`maintain`](Session::maintain) has something to do.
    pub fn poll_fd(&self) -> BorrowedFd<'_> {
        self.attachment.poll_fd()
    }

    /// Takes the oldest event.
    pub fn next_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// Reads what the hub sent, finds or starts a new hub if the old one is gone, and returns
    /// when it wants to be called again at the latest; `None` if only
    /// [`poll_fd`](Session::poll_fd) matters.
    ///
    /// Takes microseconds, and about a millisecond when it starts a hub.
    pub fn maintain(&mut self, now: Instant) -> Option<Instant> {
        if !self.attachment.is_ours() {
            return None;
        }
        while self.is_attached() {
            match self.receive() {
                Ok(Some((reply, descriptors))) => self.hear(reply, descriptors),
                Ok(None) => return None,
                Err(error) => self.lose_hub(&error),
            }
        }
        self.seek(now)
    }

    /// Asks for `count` more slots, for a process that wants to receive on more cores.
    /// Blocks until the hub answers. Returns the new ones, which are also in
    /// [`slots`](Session::slots).
    ///
    /// # Errors
    /// [`AttachError::NotRunning`] while no hub is there; others as they say. On an error no
    /// slot is added.
    pub fn more_slots(&mut self, count: u8) -> Result<&[Slot], AttachError> {
        let (reply, descriptors) = self.ask(&Request::MoreSlots { count })?;
        let Reply::Slots { slots } = reply else { return Err(unexpected(&reply)) };
        if slots.len() != usize::from(count) || descriptors.len() != slots.len() {
            return Err(AttachError::protocol("slots and sockets are not the same number"));
        }
        let before = self.slots.len();
        let both = slots.into_iter().zip(descriptors);
        self.slots.extend(both.map(|(number, socket)| Slot { number, socket }));
        Ok(&self.slots[before..])
    }

    /// Gives one of several slots back. Blocks until the hub answers.
    ///
    /// # Errors
    /// [`AttachError::Refused`] for the only slot, or one that is not this process's;
    /// [`AttachError::NotRunning`] while no hub is there; others as they say.
    pub fn release_slot(&mut self, number: u8) -> Result<(), AttachError> {
        let (reply, _) = self.ask(&Request::Release { slot: number })?;
        if reply != Reply::Done {
            return Err(unexpected(&reply));
        }
        self.slots.retain(|slot| slot.number != number);
        Ok(())
    }

    /// One request to the hub; what it says unasked meanwhile is heard, too.
    fn ask(&mut self, request: &Request) -> Result<(Reply, Vec<OwnedFd>), AttachError> {
        if !self.is_attached() {
            return Err(AttachError::NotRunning);
        }
        let failed = |source| AttachError::System { what: "ask the hub", source };
        self.attachment.send(&request.encode(), &[]).map_err(failed)?;
        let end = Instant::now() + ANSWER_PATIENCE;
        loop {
            match self.receive() {
                Ok(Some((reply, descriptors))) if !is_awaited(&reply) => self.hear(reply, descriptors),
                Ok(Some((Reply::Error { code, reason }, _))) => return Err(AttachError::from_reply(code, reason)),
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(AttachError::TimedOut { doing: "waiting for the hub's answer" });
                    }
                    self.attachment.wait(left)?;
                }
                Err(reason) => {
                    self.lose_hub(&reason);
                    return Err(AttachError::NotRunning);
                }
            }
        }
    }

    /// The next message of the hub, if there is one.
    fn receive(&self) -> Result<Option<(Reply, Vec<OwnedFd>)>, String> {
        let Some(ReceivedMessage { bytes, mut descriptors, is_cut, .. }) = self.attachment.receive()? else {
            return Ok(None);
        };
        let reply = Reply::decode(&bytes, &mut descriptors).map_err(|error| error.to_string())?;
        // A process that can have no more descriptors does without introductions.
        if is_cut && !is_introduction(&reply) {
            return Err(ReceiveError::NoDescriptorsLeft.to_string());
        }
        Ok(Some((reply, descriptors)))
    }

    /// Something that the hub said unasked, or that nobody waits for.
    fn hear(&mut self, reply: Reply, descriptors: Vec<OwnedFd>) {
        match reply {
            Reply::DevicesChanged { devices } => self.update_devices(devices),
            Reply::Leaving => self.attachment.leaving(),
            other if is_introduction(&other) => self.hear_of_introduction(other, descriptors),
            other => log::warn!("the hub said unasked: {other:?}"),
        }
    }

    /// Only the last state of the devices is of interest.
    fn update_devices(&mut self, devices: Vec<DeviceRecord>) {
        if devices == self.devices {
            return;
        }
        self.devices.clone_from(&devices);
        self.events.retain(|event| !matches!(event, SessionEvent::DevicesChanged(_)));
        self.events.push_back(SessionEvent::DevicesChanged(devices));
    }

    /// The connection is gone; begins to look for a new hub.
    fn lose_hub(&mut self, reason: &str) {
        log::info!("lost the hub ({reason})");
        self.give_up_introductions();
        self.events.push_back(SessionEvent::HubLost);
        if let Err(error) = self.look_for_another() {
            self.detach(format!("cannot look for a new hub: {error}"));
        }
    }

    fn look_for_another(&mut self) -> io::Result<()> {
        let keeper = guest::copy(&self.keeper);
        let sockets = self.slots.iter().map(|slot| guest::copy(&slot.socket));
        let mut descriptors = [keeper].into_iter().chain(sockets).collect::<io::Result<Vec<_>>>()?;
        descriptors.extend(belongings(self.counters.as_deref(), self.shm.as_ref())?);
        let slots = self.slots.iter().map(|slot| slot.number).collect();
        let request = Request::Reattach { slots, counters: self.counters.is_some(), shm: self.shm.is_some() };
        self.attachment.look_for_another(request, descriptors)
    }

    /// Goes on looking for a hub.
    fn seek(&mut self, now: Instant) -> Option<Instant> {
        match self.attachment.seek(now) {
            Ok(Some(answered)) => self.reattached(answered),
            Ok(None) => {}
            Err(AttachError::Refused { code: ErrorCode::NotYours, reason }) => self.detach(reason),
            Err(AttachError::NotRunning) => {}
            Err(error) => log::warn!("no hub yet: {error}"),
        }
        self.attachment.wake_after_seeking(now)
    }

    fn reattached(&mut self, answered: Answered) {
        let Reply::Attached { devices, .. } = answered.reply else {
            return log::warn!("unexpected reply {:?}", answered.reply);
        };
        if let Some(keeper) = answered.descriptors.into_iter().next() {
            self.keeper = keeper;
        }
        self.attachment.found(answered.socket);
        self.events.push_back(SessionEvent::Reattached);
        self.update_devices(devices);
    }

    fn detach(&mut self, reason: String) {
        self.attachment.give_up();
        self.events.push_back(SessionEvent::Detached { reason });
    }
}

/// See [`super::attach`].
pub(super) fn attach(options: &AttachOptions) -> Result<Session, AttachError> {
    let failed = |source| AttachError::System { what: "attach to the hub", source };
    let counters = options.counters.clone().filter(|page| page.file().is_some());
    let shm = options.shm.clone();
    let descriptors = belongings(counters.as_deref(), shm.as_ref()).map_err(failed)?;
    let request = Request::Attach { slot: options.slot, counters: counters.is_some(), shm: shm.is_some() };
    let (attachment, reply, descriptors) = Attachment::open(options, request, descriptors)?;
    let (number, devices) = match reply {
        Reply::Attached { slots, devices } if slots.len() == 1 => (slots[0], devices),
        other => return Err(unexpected(&other)),
    };
    let [keeper, socket]: [OwnedFd; 2] =
        descriptors.try_into().map_err(|_| AttachError::protocol("no keeper and no socket came with the slot"))?;
    Ok(Session {
        attachment,
        slots: vec![Slot { number, socket }],
        devices,
        events: VecDeque::new(),
        introducing: VecDeque::new(),
        keeper,
        counters,
        shm,
    })
}

/// Copies of what this process leaves with a hub.
fn belongings(counters: Option<&CounterPage>, shm: Option<&ShmOffer>) -> io::Result<Vec<OwnedFd>> {
    let page = counters.and_then(CounterPage::file).map(guest::copy).transpose()?;
    let offer = shm.map(ShmOffer::copies).transpose()?;
    Ok(page.into_iter().chain(offer.into_iter().flatten()).collect())
}

/// Whether a message may be the answer that somebody waits for.
fn is_awaited(reply: &Reply) -> bool {
    !matches!(reply, Reply::DevicesChanged { .. } | Reply::Leaving) && !is_introduction(reply)
}

fn is_introduction(reply: &Reply) -> bool {
    matches!(reply, Reply::Introduction { .. } | Reply::Introduced { .. } | Reply::NotIntroduced { .. })
}

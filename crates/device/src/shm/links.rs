//! The links to other processes: how they come up, how they are found, and how they end.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hub::client::{Introduction, RequestedBy, Session, ShmLinkOffer};
use parking_lot::{Condvar, Mutex, MutexGuard};
use shm::{Link, LinkEnds, Standing};

use crate::shm::export::Exporter;
use crate::shm::link::ShmLink;
use crate::shm::link_list::LinkList;
use crate::shm::meanwhile::{LinkWait, Meanwhile};

/// The time for which a refused link is remembered.
const REFUSAL_LIFE: Duration = Duration::from_secs(1);

/// The longest time from a queue pair's choice of the wire to the state in which others see that choice.
const CONNECTING: Duration = Duration::from_secs(2);

/// The status of the link to another process, for one datagram.
pub(crate) enum LinkStatus {
    /// It may come up; with the path of this datagram meanwhile.
    NotYet(Meanwhile),
    Up(Arc<ShmLink>),
    /// It may still come up; datagrams take the wire until then.
    Late,
    /// There is none.
    None,
}

/// The link to the process that has a slot, as far as it is known.
enum SlotLink {
    /// The hub was asked for it, and has not answered.
    Asked,
    /// There is a link.
    Linked(Arc<ShmLink>),
    /// There is none, since that time.
    Refused(Instant),
}

/// All links of this process.
pub(crate) struct LinkTable {
    pub(crate) list: LinkList,
    unfinished: AtomicBool,
    state: Mutex<LinkTableState>,
    changed: Condvar,
    /// The link that leads back to this process, once a queue pair wanted it. If it cannot be made, such queue pairs take
    /// the wire for good: both ends of a connection must take the same path.
    own: OnceLock<Option<Arc<ShmLink>>>,
}

#[derive(Default)]
struct LinkTableState {
    slots: HashMap<u8, SlotLink>,
    /// Slots to ask the hub for.
    to_ask: VecDeque<u8>,
    /// Our ends of links that were offered.
    offered: HashMap<u8, LinkEnds>,
    /// Links that datagrams wait for.
    waits: HashMap<u8, LinkWait>,
    /// Slots without a link to which connections took the wire, with the time of the last one.
    by_packets: HashMap<u8, Instant>,
}

impl LinkTable {
    pub(crate) fn new() -> io::Result<LinkTable> {
        Ok(LinkTable {
            list: LinkList::new()?,
            unfinished: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            own: OnceLock::new(),
        })
    }

    /// The link to the process that has a slot. If there is none yet, it asks for one and waits. It calls `ask_hub` when
    /// the background thread should call [`ask`](LinkTable::ask).
    pub(crate) fn to(&self, slot: u8, patience: Duration, ask_hub: impl FnOnce()) -> Option<Arc<ShmLink>> {
        let link = self.find(slot, patience, ask_hub)?;
        // The process that offered the link waits for the other one here, and both get the same result.
        if link.wait_confirmed(patience) {
            return Some(link);
        }
        self.forget(slot, &link);
        None
    }

    /// The link that leads back to this process; `make` makes it.
    pub(crate) fn to_itself(
        &self,
        make: impl FnOnce() -> Result<Link, Box<dyn std::error::Error>>,
        export: &Exporter,
    ) -> Option<Arc<ShmLink>> {
        let made = || match make() {
            Ok(link) => Some(self.adopt(link, [], export)),
            Err(error) => {
                log::warn!("queue pairs of this process reach each other by packets: {error}");
                None
            }
        };
        self.own.get_or_init(made).clone()
    }

    /// The status of the link to the process that has a slot, for a datagram of this length. Asks for a new one.
    pub(crate) fn status(&self, slot: u8, len_bytes: u32, ask_hub: impl FnOnce()) -> LinkStatus {
        let mut state = self.ask_if_new(slot, ask_hub);
        let link = match state.slots.get(&slot) {
            Some(SlotLink::Asked) => None,
            Some(SlotLink::Linked(link)) if link.standing() != Standing::Failed => Some(link.clone()),
            _ => return LinkStatus::None,
        };
        let now = Instant::now();
        match link.filter(|link| link.standing() == Standing::Up) {
            Some(link) if state.waits.get(&slot).is_none_or(|wait| wait.is_over(now)) => {
                state.waits.remove(&slot);
                LinkStatus::Up(link)
            }
            Some(_) => LinkStatus::NotYet(Meanwhile::Hold),
            None => {
                let wait = state.waits.entry(slot).or_insert_with(|| LinkWait::new(now));
                wait.send(len_bytes, now).map_or(LinkStatus::Late, LinkStatus::NotYet)
            }
        }
    }

    /// Whether the hub was asked for the process that has a slot.
    #[cfg(test)]
    pub(crate) fn was_asked(&self, slot: u8) -> bool {
        self.state.lock().slots.contains_key(&slot)
    }

    /// The state, after a slot that is not known was put on the list of those to ask the hub for.
    fn ask_if_new(&self, slot: u8, ask_hub: impl FnOnce()) -> MutexGuard<'_, LinkTableState> {
        let mut state = self.state.lock();
        if state.is_unknown(slot) {
            state.slots.insert(slot, SlotLink::Asked);
            state.waits.remove(&slot);
            state.to_ask.push_back(slot);
            drop(state);
            ask_hub();
            state = self.state.lock();
        }
        state
    }

    fn find(&self, slot: u8, patience: Duration, ask_hub: impl FnOnce()) -> Option<Arc<ShmLink>> {
        let end = Instant::now() + patience;
        let mut state = self.ask_if_new(slot, ask_hub);
        loop {
            match state.slots.get(&slot) {
                Some(SlotLink::Linked(link)) => return Some(link.clone()),
                Some(SlotLink::Refused(_)) | None => {
                    state.by_packets.insert(slot, Instant::now());
                    return None;
                }
                Some(SlotLink::Asked) => {}
            }
            if self.changed.wait_until(&mut state, end).timed_out() {
                state.slots.insert(slot, SlotLink::Refused(Instant::now()));
            }
        }
    }

    /// Asks the hub for all introductions that queue pairs wait for.
    pub(crate) fn ask(&self, mut session: Option<&mut Session>) {
        while let Some(slot) = self.next_to_ask() {
            if let Err(error) = self.ask_for(slot, session.as_deref_mut()) {
                log::info!("no link to slot {slot}: {error}");
                self.refused(slot);
            }
        }
    }

    fn next_to_ask(&self) -> Option<u8> {
        self.state.lock().to_ask.pop_front()
    }

    fn ask_for(&self, slot: u8, session: Option<&mut Session>) -> Result<(), Box<dyn std::error::Error>> {
        let session = session.ok_or("there is no hub")?;
        let (ours, theirs) = Link::create()?;
        session.introduce(slot, ShmLinkOffer { link: theirs.link, socket: theirs.socket })?;
        self.state.lock().offered.insert(slot, ours);
        Ok(())
    }

    /// Handles an introduction by the hub, which either process may have asked for. Whether there is a link now.
    pub(crate) fn introduced(&self, introduction: Introduction, export: &Exporter) -> bool {
        let (slot, slots) = (introduction.slot, introduction.slots.clone());
        match self.open(introduction) {
            Ok(link) => {
                self.adopt(link, slots.into_iter().chain([slot]), export);
                true
            }
            Err(error) => {
                log::warn!("no link to slot {slot}: {error}");
                self.refused(slot);
                false
            }
        }
    }

    /// Takes a link into use that leads to the process with these slots.
    pub(crate) fn adopt(&self, link: Link, slots: impl IntoIterator<Item = u8>, export: &Exporter) -> Arc<ShmLink> {
        let link = Arc::new(self.list.make_link(link));
        link.confirm();
        export.enter(link.clone());
        let mut state = self.state.lock();
        for slot in slots {
            state.slots.insert(slot, SlotLink::Linked(link.clone()));
        }
        self.changed.notify_all();
        link
    }

    fn open(&self, introduction: Introduction) -> Result<Link, Box<dyn std::error::Error>> {
        let Introduction { slot, requested_by, export, wake, pid, .. } = introduction;
        let (ends, side) = match requested_by {
            RequestedBy::Peer(ShmLinkOffer { link, socket }) => (LinkEnds { link, socket }, shm::LinkSide::Offered),
            RequestedBy::ThisProcess => {
                let ours = self.state.lock().offered.remove(&slot);
                (ours.ok_or("an answer that was not asked for")?, shm::LinkSide::Asked)
            }
        };
        Ok(Link::open(ends, shm::IntroducedPeer { export, wake, pid }, side)?)
    }

    /// Notes that the hub does not introduce the process that has a slot.
    pub(crate) fn refused(&self, slot: u8) {
        let mut state = self.state.lock();
        state.offered.remove(&slot);
        // That process may have asked for this one at the same time. Then there is a link.
        if !matches!(state.slots.get(&slot), Some(SlotLink::Linked(link)) if !link.is_dead()) {
            state.slots.insert(slot, SlotLink::Refused(Instant::now()));
        }
        self.changed.notify_all();
    }

    /// Notes that the process that has a slot was introduced before, and has got that slot since.
    pub(crate) fn already(&self, slot: u8, slots: &[u8]) {
        let mut state = self.state.lock();
        let known = |slot: &u8| match state.slots.get(slot) {
            Some(SlotLink::Linked(link)) if !link.is_dead() => Some(link.clone()),
            _ => None,
        };
        if let Some(link) = slots.iter().find_map(known) {
            state.offered.remove(&slot);
            for slot in slots {
                state.slots.insert(*slot, SlotLink::Linked(link.clone()));
            }
            drop(state);
            self.changed.notify_all();
            return;
        }
        drop(state);
        self.refused(slot);
    }

    /// Removes a link that did not come up.
    fn forget(&self, slot: u8, link: &Arc<ShmLink>) {
        self.remove(link);
        let mut state = self.state.lock();
        state.slots.insert(slot, SlotLink::Refused(Instant::now()));
        state.by_packets.insert(slot, Instant::now());
    }

    /// Whether a late link must be declined: a connection to one of these slots took the wire without it, and still
    /// does, as `in_use` tells. Otherwise the two ends of that connection would take different paths.
    pub(crate) fn must_decline(&self, slots: &[u8], in_use: impl FnOnce() -> bool) -> bool {
        let last = {
            let state = self.state.lock();
            slots.iter().filter_map(|slot| state.by_packets.get(slot).copied()).max()
        };
        let declined = last.is_some_and(|last| last.elapsed() < CONNECTING || in_use());
        if last.is_some() && !declined {
            self.state.lock().by_packets.retain(|slot, _| !slots.contains(slot));
        }
        declined
    }

    fn remove(&self, link: &Arc<ShmLink>) {
        self.list.remove(link);
        let is_it = |known: &SlotLink| matches!(known, SlotLink::Linked(other) if Arc::ptr_eq(other, link));
        self.state.lock().slots.retain(|_, known| !is_it(known));
    }

    /// Reads what peers have sent beside the lanes, and adds the links of peers that are gone to `gone`. Whether any peer
    /// has withdrawn objects.
    pub(crate) fn serve(&self, export: &Exporter, gone: &mut Vec<Arc<ShmLink>>) -> bool {
        let (mut unfinished, mut withdrawn) = (false, false);
        for link in &*self.list.all() {
            let served = link.serve_socket();
            unfinished |= served.unfinished;
            withdrawn |= served.withdrawn;
            for object in served.wanted {
                export.offer(link, object);
            }
            if link.is_dead() {
                self.remove(link);
                gone.push(link.clone());
            }
        }
        self.unfinished.store(unfinished, Relaxed);
        withdrawn
    }

    /// Whether a socket had no room for a message, and must be served again soon.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.load(Relaxed)
    }
}

impl LinkTableState {
    /// Whether the hub should be asked for a slot.
    fn is_unknown(&self, slot: u8) -> bool {
        match self.slots.get(&slot) {
            None => true,
            Some(SlotLink::Asked) => false,
            Some(SlotLink::Linked(link)) => link.is_dead(),
            Some(SlotLink::Refused(since)) => since.elapsed() > REFUSAL_LIFE,
        }
    }
}

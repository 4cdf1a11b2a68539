//! The links to other processes, and how they come about.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hub::client::{Introduction, RequestedBy, Session, ShmLinkOffer};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::epoll;
use shm::{Link, LinkEnds, Object, Standing};

use super::export::Exporter;
use super::meanwhile::{Meanwhile, Wait};

/// How long it is remembered that a slot's process has no link for us.
const REMEMBER: Duration = Duration::from_secs(1);

/// For how long a queue pair that takes packets may be on its way to the state in which it is seen to.
const CONNECTING: Duration = Duration::from_secs(2);

/// Objects of one peer that are asked for at most: no honest one needs more.
const MAX_ASKED: usize = 4096;

/// A link in use.
pub(crate) struct ShmLink {
    link: Link,
    /// Whether we may touch the peer's memory ourselves; if not, every request is a frame.
    direct: AtomicBool,
    /// Whether a capture is on. Here, beside what every request looks at anyway.
    recorded: AtomicBool,
    /// Objects that were missed and asked for.
    asked: Mutex<HashSet<u32>>,
}

impl ShmLink {
    /// An object of the peer. One that is not here and should be is asked for, once.
    #[inline]
    pub(crate) fn object(&self, object: u32) -> Option<Object> {
        self.peer().object(object).or_else(|| self.missed(object))
    }

    #[cold]
    fn missed(&self, object: u32) -> Option<Object> {
        let mut asked = self.asked.lock();
        if asked.contains(&object) || asked.len() >= MAX_ASKED {
            return None;
        }
        let found = self.link.object(object);
        if found.is_none() {
            asked.insert(object);
            self.link.want_object(object);
        }
        found
    }

    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorded.load(Relaxed)
    }

    /// Whether it leads back to this process.
    #[inline]
    pub(crate) fn is_own(&self) -> bool {
        self.link.side() == shm::LinkSide::Both
    }

    #[inline]
    pub(crate) fn is_direct(&self) -> bool {
        self.direct.load(Relaxed)
    }
}

impl Deref for ShmLink {
    type Target = Link;

    #[inline]
    fn deref(&self) -> &Link {
        &self.link
    }
}

/// The link to another process, as it is now.
pub(crate) enum AtHand {
    /// It may come up; and where this datagram goes meanwhile.
    NotYet(Meanwhile),
    Up(Arc<ShmLink>),
    /// It may still come up; the wire serves as long as that takes.
    Late,
    /// There is none.
    None,
}

/// What is known of the process that has a slot.
enum Known {
    /// It was asked for, and the hub has not answered.
    Asked,
    /// There is a link.
    Linked(Arc<ShmLink>),
    /// There is none, since then.
    Refused(Instant),
}

/// All links of this process.
pub(crate) struct Links {
    /// What threads that poll walk through; they see by the version that it is another.
    list: Mutex<Arc<[Arc<ShmLink>]>>,
    version: AtomicU64,
    direct: AtomicBool,
    recorded: AtomicBool,
    unfinished: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    /// All their sockets.
    sockets: OwnedFd,
    /// The one that leads back to this process, once it was wanted. If it cannot be made, packets serve for good: both
    /// ends of a connection must take the same way.
    own: OnceLock<Option<Arc<ShmLink>>>,
}

#[derive(Default)]
struct State {
    slots: HashMap<u8, Known>,
    /// Slots to be introduced to.
    wishes: VecDeque<u8>,
    /// Our ends of links that were offered.
    offered: HashMap<u8, LinkEnds>,
    /// Links that datagrams wait for.
    waits: HashMap<u8, Wait>,
    /// Slots without a link to which connections took packets, and when one did last.
    by_packets: HashMap<u8, Instant>,
}

impl Links {
    pub(crate) fn new() -> io::Result<Links> {
        Ok(Links {
            list: Mutex::new(Arc::new([])),
            version: AtomicU64::new(new_version()),
            direct: AtomicBool::new(true),
            recorded: AtomicBool::new(false),
            unfinished: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            sockets: guest::high(epoll::create(epoll::CreateFlags::CLOEXEC)?),
            own: OnceLock::new(),
        })
    }

    /// Readable when [`serve`](Links::serve) has something to do.
    pub(crate) fn sockets(&self) -> BorrowedFd<'_> {
        self.sockets.as_fd()
    }

    pub(crate) fn all(&self) -> Arc<[Arc<ShmLink>]> {
        self.list.lock().clone()
    }

    /// Whether requests may be done without frames from now on: faults are injected into frames.
    pub(crate) fn set_direct(&self, direct: bool) {
        self.direct.store(direct, Relaxed);
        for link in &*self.all() {
            link.direct.store(direct, Relaxed);
        }
    }

    /// Whether what goes over links is told to the capture from now on.
    pub(crate) fn set_recorded(&self, recorded: bool) {
        self.recorded.store(recorded, Relaxed);
        for link in &*self.all() {
            link.recorded.store(recorded, Relaxed);
        }
    }

    /// Changes with the list.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// The link to the process that has a slot. Asks for it and waits if need be; `wish` is called
    /// when somebody should look at [`ask`](Links::ask).
    pub(crate) fn to(&self, slot: u8, patience: Duration, wish: impl FnOnce()) -> Option<Arc<ShmLink>> {
        let link = self.find(slot, patience, wish)?;
        // Whoever offered waits for the other here, and both hear the same answer.
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

    /// The link to the process that has a slot, for a datagram of this length. Asks for it, if that is worth while.
    pub(crate) fn at_hand(&self, slot: u8, len_bytes: u32, wish: impl FnOnce()) -> AtHand {
        let mut state = self.ask_if_new(slot, wish);
        let link = match state.slots.get(&slot) {
            Some(Known::Asked) => None,
            Some(Known::Linked(link)) if link.standing() != Standing::Failed => Some(link.clone()),
            _ => return AtHand::None,
        };
        let now = Instant::now();
        match link.filter(|link| link.standing() == Standing::Up) {
            Some(link) if state.waits.get(&slot).is_none_or(|wait| wait.is_over(now)) => {
                state.waits.remove(&slot);
                AtHand::Up(link)
            }
            Some(_) => AtHand::NotYet(Meanwhile::Wait),
            None => {
                let wait = state.waits.entry(slot).or_insert_with(|| Wait::new(now));
                wait.send(len_bytes, now).map_or(AtHand::Late, AtHand::NotYet)
            }
        }
    }

    /// Whether the hub was asked for the process that has a slot.
    #[cfg(test)]
    pub(crate) fn was_asked(&self, slot: u8) -> bool {
        self.state.lock().slots.contains_key(&slot)
    }

    /// What is known, after the slot was put on the list of those to ask for if that is worth while.
    fn ask_if_new(&self, slot: u8, wish: impl FnOnce()) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if state.is_news(slot) {
            state.slots.insert(slot, Known::Asked);
            state.waits.remove(&slot);
            state.wishes.push_back(slot);
            drop(state);
            wish();
            state = self.state.lock();
        }
        state
    }

    fn find(&self, slot: u8, patience: Duration, wish: impl FnOnce()) -> Option<Arc<ShmLink>> {
        let end = Instant::now() + patience;
        let mut state = self.ask_if_new(slot, wish);
        loop {
            match state.slots.get(&slot) {
                Some(Known::Linked(link)) => return Some(link.clone()),
                Some(Known::Refused(_)) | None => {
                    state.by_packets.insert(slot, Instant::now());
                    return None;
                }
                Some(Known::Asked) => {}
            }
            if self.changed.wait_until(&mut state, end).timed_out() {
                state.slots.insert(slot, Known::Refused(Instant::now()));
            }
        }
    }

    /// Asks the hub for every introduction that is wished for.
    pub(crate) fn ask(&self, mut session: Option<&mut Session>) {
        while let Some(slot) = self.next_wish() {
            if let Err(error) = self.ask_for(slot, session.as_deref_mut()) {
                log::info!("no link to slot {slot}: {error}");
                self.refused(slot);
            }
        }
    }

    fn next_wish(&self) -> Option<u8> {
        self.state.lock().wishes.pop_front()
    }

    fn ask_for(&self, slot: u8, session: Option<&mut Session>) -> Result<(), Box<dyn std::error::Error>> {
        let session = session.ok_or("there is no hub")?;
        let (ours, theirs) = Link::create()?;
        session.introduce(slot, ShmLinkOffer { link: theirs.link, socket: theirs.socket })?;
        self.state.lock().offered.insert(slot, ours);
        Ok(())
    }

    /// The hub has introduced another process, whoever asked. Whether there is a link now.
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
        let link = Arc::new(ShmLink {
            link,
            direct: AtomicBool::new(self.direct.load(Relaxed)),
            recorded: AtomicBool::new(self.recorded.load(Relaxed)),
            asked: Mutex::default(),
        });
        link.confirm();
        export.enter(link.clone());
        let mut state = self.state.lock();
        for slot in slots {
            state.slots.insert(slot, Known::Linked(link.clone()));
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
        Ok(Link::open(ends, shm::Introduction { export, wake, pid }, side)?)
    }

    /// The hub does not introduce the process that has a slot.
    pub(crate) fn refused(&self, slot: u8) {
        let mut state = self.state.lock();
        state.offered.remove(&slot);
        // It may have asked for us at the same time: then there is a link.
        if !matches!(state.slots.get(&slot), Some(Known::Linked(link)) if !link.is_dead()) {
            state.slots.insert(slot, Known::Refused(Instant::now()));
        }
        self.changed.notify_all();
    }

    /// The hub has introduced the process that has a slot before: it has got that slot since.
    pub(crate) fn already(&self, slot: u8, slots: &[u8]) {
        let mut state = self.state.lock();
        let known = |slot: &u8| match state.slots.get(slot) {
            Some(Known::Linked(link)) if !link.is_dead() => Some(link.clone()),
            _ => None,
        };
        if let Some(link) = slots.iter().find_map(known) {
            state.offered.remove(&slot);
            for slot in slots {
                state.slots.insert(*slot, Known::Linked(link.clone()));
            }
            drop(state);
            self.changed.notify_all();
            return;
        }
        drop(state);
        self.refused(slot);
    }

    /// The link did not come up.
    fn forget(&self, slot: u8, link: &Arc<ShmLink>) {
        self.remove(link);
        let mut state = self.state.lock();
        state.slots.insert(slot, Known::Refused(Instant::now()));
        state.by_packets.insert(slot, Instant::now());
    }

    /// Whether a connection to one of these slots took packets because there was no link, and still does, as
    /// `in_use` tells: a link that comes late must not be taken, or the peer would take another way than we do.
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

    pub(crate) fn enter(&self, link: Arc<ShmLink>) {
        if let Err(error) = super::watch(&self.sockets, &link, Arc::as_ptr(&link).addr() as u64) {
            log::warn!("the death of a peer may be seen late: {error}");
        }
        let mut list = self.list.lock();
        // What was switched since the link was made would not have reached it.
        link.direct.store(self.direct.load(Relaxed), Relaxed);
        link.recorded.store(self.recorded.load(Relaxed), Relaxed);
        *list = list.iter().cloned().chain([link]).collect();
        self.version.store(new_version(), Release);
    }

    fn remove(&self, link: &Arc<ShmLink>) {
        if let Some(socket) = link.socket() {
            let _ = epoll::delete(&self.sockets, socket);
        }
        if let Some(process) = link.peer().process() {
            let _ = epoll::delete(&self.sockets, process);
        }
        let mut list = self.list.lock();
        *list = list.iter().filter(|other| !Arc::ptr_eq(other, link)).cloned().collect();
        self.version.store(new_version(), Release);
        drop(list);
        self.state.lock().slots.retain(|_, known| !matches!(known, Known::Linked(other) if Arc::ptr_eq(other, link)));
    }

    /// Reads what peers have sent beside the lanes; those that are gone come into `gone`.
    /// Whether any has withdrawn objects.
    pub(crate) fn serve(&self, export: &Exporter, gone: &mut Vec<Arc<ShmLink>>) -> bool {
        let (mut unfinished, mut withdrawn) = (false, false);
        for link in &*self.all() {
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

    /// Whether a socket had no room for what is to be told: to be served again in a while.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.load(Relaxed)
    }
}

/// A version that no list has had, in whatever engine: threads remember it beside what they saw.
fn new_version() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

impl State {
    /// Whether the hub should be asked about a slot.
    fn is_news(&self, slot: u8) -> bool {
        match self.slots.get(&slot) {
            None => true,
            Some(Known::Asked) => false,
            Some(Known::Linked(link)) => link.is_dead(),
            Some(Known::Refused(since)) => since.elapsed() > REMEMBER,
        }
    }
}

//! All ids of a process, and what connects them with the connection manager and the hub.

mod entry;
mod heard;
mod request;
mod wills;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cm::ConnId;
use hub::DeviceRecord;
use hub::client::manager::{MadPacket, ManagerEvent, ManagerSession};

pub(crate) use entry::{Asked, Entry, Phase, Remote};
pub(crate) use request::refusal;
use wills::Wills;

use crate::error::Error;
use crate::event::{EventKind, Param};
use crate::id::{Id, IdKey};
use crate::process::Process;
use crate::queue::{EventQueue, Pending, Whose};
use crate::space::PortSpace;
use crate::unreliable::Unreliable;

/// The status of a peer that has not answered in time.
const TIMED_OUT: i32 = -libc::ETIMEDOUT;

/// The state behind a process's lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) session: ManagerSession,
    pub(crate) cm: cm::Manager,
    ids: HashMap<IdKey, Entry>,
    conns: HashMap<ConnId, IdKey>,
    /// Who listens, by space and port.
    listeners: HashMap<(PortSpace, u16), Vec<IdKey>>,
    wills: Wills,
    /// The status of a peer that does not answer.
    unreachable_status: i32,
    unreliable: Unreliable,
    /// What must be dropped when the lock is open: it may hold ids.
    rubbish: Vec<Rubbish>,
    last_key: u64,
    start: Instant,
    /// When the session wants attention.
    session_wake: Option<Duration>,
    /// The session may have heard something that nobody has looked at.
    unsettled: bool,
}

/// Something that may hold the last handle of an id.
#[derive(Debug)]
pub(crate) enum Rubbish {
    /// Events.
    Events(#[allow(dead_code, reason = "it is dropped, that is all")] Vec<Pending>),
    /// An id that nobody wants.
    Id(#[allow(dead_code, reason = "it is dropped, that is all")] Id),
}

impl State {
    pub(crate) fn new(session: ManagerSession, unreliable: Unreliable, start: Instant) -> State {
        let guid = session.devices().first().map_or(0, |device| device.node_guid.0);
        let cm = cm::Manager::new(cm::Config::new(session.number(), guid, crate::random::word()));
        State {
            session,
            cm,
            ids: HashMap::new(),
            conns: HashMap::new(),
            listeners: HashMap::new(),
            wills: Wills::default(),
            unreachable_status: TIMED_OUT,
            unreliable,
            rubbish: Vec::new(),
            last_key: 0,
            start,
            session_wake: None,
            unsettled: false,
        }
    }

    /// Time as the connection manager has it.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn next_key(&mut self) -> IdKey {
        self.last_key += 1;
        IdKey(self.last_key)
    }

    pub(crate) fn insert(&mut self, key: IdKey, entry: Entry) {
        self.ids.insert(key, entry);
    }

    pub(crate) fn find(&self, key: IdKey) -> Option<&Entry> {
        self.ids.get(&key)
    }

    /// An id that was not destroyed.
    pub(crate) fn entry(&mut self, key: IdKey) -> Result<&mut Entry, Error> {
        self.ids.get_mut(&key).ok_or(Error::State("it was destroyed"))
    }

    /// An id takes requests from now on.
    pub(crate) fn listens(&mut self, key: IdKey, backlog: u32) {
        let Some(entry) = self.ids.get_mut(&key) else { return };
        entry.phase = Phase::Listening;
        entry.backlog = backlog;
        if let Some(local) = entry.local {
            self.listeners.entry((entry.space, local.port())).or_default().push(key);
        }
    }

    fn listens_no_more(&mut self, key: IdKey, entry: &Entry) {
        let Some(place) = entry.local.map(|local| (entry.space, local.port())) else { return };
        if let Some(keys) = self.listeners.get_mut(&place) {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.listeners.remove(&place);
            }
        }
    }

    /// Those who listen on a port.
    pub(crate) fn listening(&self, space: PortSpace, port: u16) -> impl Iterator<Item = (IdKey, &Entry)> {
        let keys = self.listeners.get(&(space, port)).into_iter().flatten();
        keys.filter_map(|key| Some((*key, self.ids.get(key)?)))
    }

    /// A connection belongs to an id from now on.
    pub(crate) fn join(&mut self, conn: ConnId, key: IdKey) {
        self.conns.insert(conn, key);
        if let Some(entry) = self.ids.get_mut(&key) {
            entry.conn = Some(conn);
        }
        self.wills.touch(conn);
    }

    /// Something was done with a connection.
    pub(crate) fn touch(&mut self, conn: ConnId) {
        self.wills.touch(conn);
    }

    /// The devices of this host.
    pub(crate) fn devices(&self) -> &[DeviceRecord] {
        self.session.devices()
    }

    /// Tells an id's owner.
    pub(crate) fn tell(&mut self, key: IdKey, kind: EventKind, status: i32, param: Param) {
        if let Some(entry) = self.ids.get(&key) {
            let whose = Whose::Known(entry.handle.clone());
            entry.queue.push(Pending { owner: key, whose, kind, status, param });
        }
    }

    /// Moves an id's events, and the new ids among them with theirs, to another queue.
    pub(crate) fn migrate(&mut self, key: IdKey, queue: &EventQueue) {
        let Some(entry) = self.ids.get_mut(&key) else { return };
        let old = std::mem::replace(&mut entry.queue, queue.clone());
        let moved = old.take_of(key);
        let new: Vec<IdKey> = moved.iter().filter_map(Pending::new_id).collect();
        moved.into_iter().for_each(|event| queue.push(event));
        new.into_iter().for_each(|key| self.migrate(key, queue));
    }

    /// Ends an id: see [`Id::destroy`].
    pub(crate) fn destroy(&mut self, key: IdKey) {
        let Some(entry) = self.ids.remove(&key) else { return };
        self.rubbish.push(Rubbish::Events(entry.queue.take_of(key)));
        if entry.phase == Phase::Listening {
            self.listens_no_more(key, &entry);
        }
        if let Some(token) = entry.token {
            self.session.unbind(token);
        }
        if let Some(conn) = entry.conn {
            let now = self.now();
            self.conns.remove(&conn);
            self.cm.destroy(now, conn);
            self.wills.let_go(now, conn);
        }
    }

    /// Something to be dropped when the lock is open.
    pub(crate) fn discard(&mut self, id: Id) {
        self.rubbish.push(Rubbish::Id(id));
    }

    pub(crate) fn take_rubbish(&mut self) -> Vec<Rubbish> {
        std::mem::take(&mut self.rubbish)
    }

    /// When something must be done at the latest.
    pub(crate) fn next_wake(&self) -> Option<Duration> {
        [self.cm.next_timeout(), self.session_wake, self.wills.next_look()].into_iter().flatten().min()
    }

    /// What the hub sent, and timers. The thread calls it.
    pub(crate) fn maintain(&mut self, process: &Arc<Process>) {
        let wake = self.session.maintain(Instant::now());
        self.session_wake = wake.map(|at| at.saturating_duration_since(self.start));
        self.take_news(process);
        let now = self.now();
        self.cm.expire(now);
        self.wills.look(now);
    }

    /// What the session has heard.
    fn take_news(&mut self, process: &Arc<Process>) {
        while let Some(event) = self.session.next_event() {
            match event {
                ManagerEvent::Mad(packet) => self.receive(process, &packet),
                ManagerEvent::Undelivered { packet, errno } => self.undelivered(process, &packet.mad, errno),
                ManagerEvent::DevicesChanged(_) => self.devices_changed(),
                ManagerEvent::Renumbered(number) => self.cm.set_number(number),
                ManagerEvent::BindingLost { token } => self.binding_lost(token),
                ManagerEvent::HubLost | ManagerEvent::Reattached => log::info!("{event:?}"),
            }
        }
    }

    /// While there was no hub, another process has taken a port of ours.
    fn binding_lost(&mut self, token: u64) {
        for entry in self.ids.values_mut().filter(|entry| entry.token == Some(token)) {
            log::error!("the port of {:?} went to another process while there was no hub", entry.local);
            entry.token = None;
        }
    }

    /// Waited for the hub: what else it said must be looked at, by the thread.
    pub(crate) fn unsettle(&mut self) {
        self.unsettled = true;
    }

    /// Whether the thread must look.
    pub(crate) fn take_unsettled(&mut self) -> bool {
        std::mem::take(&mut self.unsettled)
    }

    fn receive(&mut self, process: &Arc<Process>, packet: &MadPacket) {
        let route = cm::Route {
            local: packet.local,
            remote: packet.remote,
            interface: packet.interface,
            traffic_class: packet.traffic_class,
        };
        let now = self.now();
        self.cm.receive(now, &route, &packet.mad);
        self.settle(process);
    }

    /// The network brought a message back: who waits for its answer is told why.
    fn undelivered(&mut self, process: &Arc<Process>, mad: &[u8; 256], errno: i32) {
        let now = self.now();
        self.cm.undelivered(now, mad);
        self.unreachable_status = -errno;
        self.settle(process);
        self.unreachable_status = TIMED_OUT;
    }

    /// Carries out what the connection manager decided.
    pub(crate) fn settle(&mut self, process: &Arc<Process>) {
        while let Some(output) = self.cm.poll() {
            match output {
                cm::Output::Send { route, mad } => self.send(&route, &mad),
                cm::Output::Event { id, event } => self.heard(process, id, &event),
            }
        }
        self.wills.settle(&self.cm, &mut self.session);
    }

    fn send(&mut self, route: &cm::Route, mad: &[u8; 256]) {
        let packet = packet(route, mad);
        for _ in 0..self.unreliable.copies() {
            self.session.send_mad(&packet);
        }
    }

    /// Ids whose device is gone.
    fn devices_changed(&mut self) {
        let there = |name: &str| self.session.devices().iter().any(|device| device.name == name);
        let gone = |entry: &Entry| entry.binding.as_ref().is_some_and(|binding| !there(&binding.device));
        let keys: Vec<IdKey> = self.ids.iter().filter(|(_, entry)| gone(entry)).map(|(key, _)| *key).collect();
        for key in keys {
            if !std::mem::replace(&mut self.ids.get_mut(&key).expect("just found").removal_told, true) {
                self.tell(key, EventKind::DeviceRemoval, 0, Param::None);
            }
        }
    }
}

/// A MAD on its way.
fn packet(route: &cm::Route, mad: &[u8; 256]) -> MadPacket {
    MadPacket {
        local: route.local,
        remote: route.remote,
        interface: route.interface,
        traffic_class: route.traffic_class,
        mad: *mad,
    }
}

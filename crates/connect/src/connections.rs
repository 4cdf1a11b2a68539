//! All ids of a process, and what connects them with the connection manager and the hub.
//!
//! ```text
//!  connections            looks an id up, has a component act, passes the outcome on
//!    ├─ active, passive     one side each of making a connection
//!    ├─ incoming            messages of the hub, events of the connection manager
//!    ├─ events              the connection manager's events, as the callers get them
//!    ├─ binding, route      addresses, ports, devices
//!    ├─ attributes          what a queue pair needs for its next state
//!    ├─ id_table, id_state  the ids
//!    └─ closing             the closing messages that the hub has
//! ```
//!
//! Everything that callers should hear comes out of [`next_notice`](Connections::next_notice).
//!
//! Outside this module: it knows no event queue, no handle of an id, no thread and no lock.

mod active;
mod attributes;
mod binding;
mod closing;
mod events;
mod id_state;
mod id_table;
mod incoming;
mod passive;
mod route;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use hub::client::manager::ManagerSession;
use wire::QKey;
use wire::mad::MAD_LEN;

pub(crate) use attributes::attributes;
pub use id_state::{Binding, IdKey};
pub(crate) use id_state::{CmIdState, IdPhase};

use crate::error::Error;
use crate::event::{ConnParam, EventDetails, EventKind, Param};
use crate::injected_faults::InjectedFaults;
use closing::{ClosingTracker, mad_packet};
use id_table::IdTable;

/// The status of an event about a peer that has not answered in time.
const TIMED_OUT: i32 = -libc::ETIMEDOUT;

/// Most unfetched connect requests of a listener whose caller names no number.
const DEFAULT_BACKLOG: u32 = 1024;

/// An event for the owner of an id.
#[derive(Debug)]
pub(crate) struct Notice {
    /// The id whose owner gets the event.
    pub(crate) owner: IdKey,
    /// The id that a connect request has made.
    pub(crate) new_id: Option<IdKey>,
    pub(crate) event: EventDetails,
}

/// The ids with their connections.
#[derive(Debug)]
pub(crate) struct Connections {
    session: ManagerSession,
    cm: cm::Manager,
    ids: IdTable,
    closing: ClosingTracker,
    faults: InjectedFaults,
    notices: VecDeque<Notice>,
    /// The status of events about peers that do not answer.
    unreachable_status: i32,
    start: Instant,
    /// When the session needs [`maintain`](Connections::maintain) at the latest.
    session_wake: Option<Duration>,
    /// The session has waited for the hub's answer, and may have read other messages before it.
    needs_maintenance: bool,
}

impl Connections {
    pub(crate) fn new(session: ManagerSession, faults: InjectedFaults, start: Instant) -> Connections {
        let guid = session.devices().first().map_or(0, |device| device.node_guid.0);
        let cm = cm::Manager::new(cm::Config::new(session.number(), guid, crate::random::word()));
        Connections {
            session,
            cm,
            ids: IdTable::default(),
            closing: ClosingTracker::default(),
            faults,
            notices: VecDeque::new(),
            unreachable_status: TIMED_OUT,
            start,
            session_wake: None,
            needs_maintenance: false,
        }
    }

    /// The session with the hub.
    pub(crate) fn session_mut(&mut self) -> &mut ManagerSession {
        &mut self.session
    }

    /// The time of the connection manager.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn add(&mut self, id: CmIdState) -> IdKey {
        self.ids.add(id)
    }

    pub(crate) fn get(&self, key: IdKey) -> Option<&CmIdState> {
        self.ids.get(key)
    }

    /// The id, unless it was destroyed.
    pub(crate) fn get_mut(&mut self, key: IdKey) -> Result<&mut CmIdState, Error> {
        self.ids.get_mut(key)
    }

    /// See [`Id::bind`](crate::Id::bind).
    pub(crate) fn bind(&mut self, key: IdKey, address: SocketAddr) -> Result<(), Error> {
        self.needs_maintenance = true;
        binding::bind(self.ids.get_mut(key)?, &mut self.session, address)
    }

    /// See [`Id::listen`](crate::Id::listen).
    pub(crate) fn listen(&mut self, key: IdKey, backlog: u32) -> Result<(), Error> {
        self.needs_maintenance = true;
        let id = self.ids.get_mut(key)?;
        if id.phase == IdPhase::Idle {
            binding::bind(id, &mut self.session, SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
        }
        let (IdPhase::Bound, Some(token)) = (id.phase, id.token) else {
            return Err(Error::State("an id that listens must be bound, without a destination or connection"));
        };
        self.session.listen(token)?;
        self.ids.start_listening(key, if backlog == 0 { DEFAULT_BACKLOG } else { backlog });
        Ok(())
    }

    /// See [`Id::resolve_addr`](crate::Id::resolve_addr).
    pub(crate) fn resolve_addr(
        &mut self,
        key: IdKey,
        source: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<(), Error> {
        self.needs_maintenance = true;
        binding::resolve_addr(self.ids.get_mut(key)?, &mut self.session, source, destination)?;
        self.notify(key, EventDetails::new(EventKind::AddrResolved, Param::None));
        Ok(())
    }

    /// See [`Id::resolve_route`](crate::Id::resolve_route).
    pub(crate) fn resolve_route(&mut self, key: IdKey) -> Result<(), Error> {
        let id = self.ids.get_mut(key)?;
        if id.phase != IdPhase::AddrResolved {
            return Err(Error::State("its address is not resolved"));
        }
        id.phase = IdPhase::RouteResolved;
        self.notify(key, EventDetails::new(EventKind::RouteResolved, Param::None));
        Ok(())
    }

    /// See [`Id::connect`](crate::Id::connect).
    pub(crate) fn connect(&mut self, key: IdKey, param: &ConnParam) -> Result<(), Error> {
        let now = self.now();
        let id = self.ids.get_mut(key)?;
        if id.phase != IdPhase::RouteResolved {
            return Err(Error::State("its route is not resolved"));
        }
        let conn = match id.is_datagram() {
            true => active::look_up(id, &mut self.cm, now, param)?,
            false => active::connect(id, &mut self.cm, now, param)?,
        };
        self.ids.join(conn, key);
        self.closing.touch(conn);
        Ok(())
    }

    /// See [`Id::establish`](crate::Id::establish).
    pub(crate) fn establish(&mut self, key: IdKey) -> Result<(), Error> {
        match self.ids.get_mut(key)?.phase {
            IdPhase::Accepted => self.notify_established(key),
            _ => self.confirm(key),
        }
    }

    /// See [`Id::confirm`](crate::Id::confirm).
    pub(crate) fn confirm(&mut self, key: IdKey) -> Result<(), Error> {
        let now = self.now();
        let id = self.ids.get_mut(key)?;
        let conn = id.unconfirmed(IdPhase::Responded)?;
        self.cm.confirm(now, conn, &[])?;
        id.phase = IdPhase::Established;
        self.closing.touch(conn);
        Ok(())
    }

    /// See [`Id::notify`](crate::Id::notify).
    pub(crate) fn notify_established(&mut self, key: IdKey) -> Result<(), Error> {
        let now = self.now();
        let id = self.ids.get_mut(key)?;
        let conn = id.unconfirmed(IdPhase::Accepted)?;
        self.cm.established(now, conn)?;
        let event = events::established(id);
        self.notify(key, event);
        self.closing.touch(conn);
        Ok(())
    }

    /// See [`Id::accept`](crate::Id::accept).
    pub(crate) fn accept(&mut self, key: IdKey, param: &ConnParam) -> Result<(), Error> {
        let now = self.now();
        let id = self.ids.get_mut(key)?;
        if id.phase != IdPhase::Requested {
            return Err(Error::State("it has no request to accept"));
        }
        match id.is_datagram() {
            true => passive::answer_look_up(id, &mut self.cm, now, param)?,
            false => passive::accept(id, &mut self.cm, now, param)?,
        }
        self.touch(key);
        Ok(())
    }

    /// See [`Id::reject`](crate::Id::reject).
    pub(crate) fn reject(&mut self, key: IdKey, private_data: &[u8], reason: u16) -> Result<(), Error> {
        let now = self.now();
        let id = self.ids.get_mut(key)?;
        if !matches!(id.phase, IdPhase::Requested | IdPhase::Responded) {
            return Err(Error::State("it has no request to refuse"));
        }
        passive::reject(id, &mut self.cm, now, private_data, reason)?;
        self.touch(key);
        Ok(())
    }

    /// See [`Id::disconnect`](crate::Id::disconnect).
    pub(crate) fn disconnect(&mut self, key: IdKey) -> Result<(), Error> {
        let now = self.now();
        let id = self.ids.get_mut(key)?;
        let conn = id.connection()?;
        if id.phase == IdPhase::Established && !id.is_datagram() {
            self.cm.disconnect(now, conn, &[])?;
            self.closing.touch(conn);
        }
        Ok(())
    }

    /// See [`Id::join`](crate::Id::join).
    pub(crate) fn join_group(&mut self, key: IdKey, group: IpAddr, qkey: Option<QKey>) -> Result<(), Error> {
        let event = binding::join_group(self.ids.get_mut(key)?, group, qkey)?;
        self.notify(key, event);
        Ok(())
    }

    /// Forgets an id. Its port is free, and its peer is told.
    pub(crate) fn destroy(&mut self, key: IdKey) {
        let Some(id) = self.ids.remove(key) else { return };
        if let Some(token) = id.token {
            self.session.unbind(token);
        }
        if let Some(conn) = id.conn {
            let now = self.now();
            self.cm.destroy(now, conn);
            self.closing.release(now, conn);
        }
    }

    /// The next event for a caller.
    pub(crate) fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// The time of the next [`maintain`](Connections::maintain).
    pub(crate) fn next_wake(&self) -> Option<Duration> {
        [self.cm.next_timeout(), self.session_wake, self.closing.next_check()].into_iter().flatten().min()
    }

    /// Whether [`maintain`](Connections::maintain) must be called without waiting.
    pub(crate) fn take_needs_maintenance(&mut self) -> bool {
        std::mem::take(&mut self.needs_maintenance)
    }

    /// Reads the hub's messages, and does everything that is due.
    pub(crate) fn maintain(&mut self) {
        let wake = self.session.maintain(Instant::now());
        self.session_wake = wake.map(|at| at.saturating_duration_since(self.start));
        while let Some(event) = self.session.next_event() {
            self.on_session_event(event);
        }
        let now = self.now();
        self.cm.expire(now);
        self.closing.check(now);
    }

    /// Sends and reports what the connection manager has decided.
    pub(crate) fn settle(&mut self) {
        while let Some(output) = self.cm.poll() {
            match output {
                cm::ManagerOutput::Send { route, mad } => self.send(&route, &mad),
                cm::ManagerOutput::Event { id, event } => self.on_cm_event(id, &event),
            }
        }
        self.closing.update(&self.cm, &mut self.session);
    }

    fn send(&mut self, route: &cm::MadRoute, mad: &[u8; MAD_LEN]) {
        let packet = mad_packet(route, mad);
        for _ in 0..self.faults.copies() {
            self.session.send_mad(&packet);
        }
    }

    fn notify(&mut self, owner: IdKey, event: EventDetails) {
        self.notices.push_back(Notice { owner, new_id: None, event });
    }

    /// The closing message of an id's connection may have changed.
    fn touch(&mut self, key: IdKey) {
        let conn = self.ids.get(key).and_then(|id| id.conn);
        self.closing.touch(conn.expect("the caller has used the id's connection"));
    }
}

//! Sessions with several servers, or several with one, that one thread polls together.
//!
//! They share a [`Port`]: one completion queue, its receive buffers, and one endpoint for datagrams. A poll costs as much as
//! there is to take, and not as much as there are sessions. Only the ways that poll memory look at each of them. (An `Rpc`
//! object of eRPC does the same for its sessions: Kalia et al., NSDI 2019, section 3.)

use std::time::{Duration, Instant};

use longarm::Target;

use crate::client::connect::{SEND_DEPTH, SessionDemands, open_port, open_session, random, route_to};
use crate::client::members::GroupMembers;
use crate::client::poll::{CHECK, ClientStats, LOOKS};
use crate::client::session::CallerSession;
use crate::code::Executed;
use crate::options::ClientOptions;
use crate::published::PublishedSlice;
use crate::service::Method;
use crate::session::{CallId, NewCall, NotStarted};
use crate::status::Status;
use crate::verbs::{Port, PortEvent, PortSizes};
use crate::way::Way;

/// Receive buffers of each kind that a group has at most.
const RECEIVES: u32 = 4096;
/// Connections that are looked at at a time.
const CHECKED: usize = 64;
/// The reason why a session that was removed takes no calls.
const REMOVED: &str = "the session was removed from its group";

/// A session of a [`ClientGroup`]. No later session of the group has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl SessionId {
    /// Its place in the group: 0, 1, 2 and so on. A later session may take the place of one that was removed.
    pub fn index(self) -> usize {
        self.index as usize
    }
}

/// Clients of several servers that one thread polls together, as one [`Client`](crate::Client) is polled.
///
/// All servers must be reached by the same device.
///
/// ```no_run
/// use longarm_rpc::{ClientGroup, ClientOptions, Method};
///
/// const SAY: Method = Method::new("/echo.Echo/Say");
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut group = ClientGroup::new(&ClientOptions::default());
/// let servers = ["host-a:7471", "host-b:7471"].map(|server| group.connect(server));
/// for server in servers {
///     group.start(server?, SAY, b"hello", None).expect("a first call");
/// }
/// let mut answers = 0;
/// while answers < 2 {
///     answers += group.poll(|server, _, reply| println!("{}: {reply:?}", server.index()));
/// }
/// # Ok(())
/// # }
/// ```
pub struct ClientGroup {
    options: ClientOptions,
    /// It is there from the first session on.
    port: Option<Port>,
    members: GroupMembers,
    /// Events that came while a session was opened.
    early: Vec<PortEvent>,
    looks: u32,
    /// The time of the last look at the device.
    now: Instant,
    /// The time of the last look at connections.
    checked: Instant,
}

impl ClientGroup {
    /// A group without sessions. Its sessions have these settings.
    pub fn new(options: &ClientOptions) -> ClientGroup {
        let now = Instant::now();
        let (port, members, early) = (None, GroupMembers::default(), Vec::new());
        ClientGroup { options: options.clone(), port, members, early, looks: 0, now, checked: now }
    }

    /// Connects to a server, and waits for it. The other sessions' calls go on, but their outcomes wait for the next poll.
    ///
    /// # Errors
    /// Those of [`Client::connect`](crate::Client::connect), and [`Code::Unavailable`](crate::Code::Unavailable) if the
    /// server is not reached by the device of the group's first session.
    pub fn connect(&mut self, to: impl Into<Target>) -> Result<SessionId, Status> {
        let until = Instant::now() + self.options.connect_timeout;
        let route = route_to(to, &self.options, until)?;
        if self.port.is_none() {
            let sizes = PortSizes { receives: RECEIVES, datagrams: RECEIVES, send_depth: SEND_DEPTH };
            self.port = Some(open_port(&route, &self.options, sizes)?);
        }
        let Some(port) = &mut self.port else {
            return Err(Status::internal("the group has no port").with_executed(Executed::No));
        };
        let token = self.members.unused_token(random);
        // As to a client that sleeps, completions tell of replies: nobody looks into the memory of all sessions.
        let demands = SessionDemands { options: &self.options, sleeps: true, token, until };
        let early = &mut self.early;
        let session = open_session(port, &route, &demands, &mut |event| early.push(event))?;
        let (messages, datagrams) = buffers_of(&session);
        port.expect(messages, datagrams);
        let id = self.members.insert(session, token);
        for event in std::mem::take(&mut self.early) {
            self.on_event(event);
        }
        Ok(id)
    }

    /// Ends a session. Its calls do not end in a poll any more; the server may have executed them.
    pub fn remove(&mut self, session: SessionId) {
        if let Some(mut gone) = self.members.remove(session) {
            gone.link().disconnect();
            let (messages, datagrams) = buffers_of(&gone);
            if let Some(port) = &mut self.port {
                port.forget(messages, datagrams);
            }
        }
    }

    /// Its number of sessions, those included that have ended and were not removed.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True if it has no sessions.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The reason why a session takes no further call, if there is one.
    pub fn closed(&self, session: SessionId) -> Option<&str> {
        match self.members.get(session) {
            Some(member) => member.session().closed(),
            None => Some(REMOVED),
        }
    }

    /// The way of a session, and why it is that way; `None` if it was removed.
    pub fn way(&self, session: SessionId) -> Option<(Way, &str)> {
        self.members.get(session).map(|member| (member.way(), member.why()))
    }

    /// The figures of a session; `None` if it was removed.
    pub fn stats(&self, session: SessionId) -> Option<ClientStats> {
        self.members.get(session).map(CallerSession::stats)
    }

    /// Calls of a session that have not ended, as [`Client::outstanding`](crate::Client::outstanding) counts them.
    pub fn outstanding(&self, session: SessionId) -> usize {
        self.members.get(session).map_or(0, |member| member.session().outstanding())
    }

    /// Sends a request to the server of a session. Its bytes may be used again at once. While other calls are outstanding, it
    /// may wait for further requests, to any of the servers, or the next poll.
    ///
    /// # Errors
    /// Those of [`Client::start`](crate::Client::start).
    pub fn start(
        &mut self,
        session: SessionId,
        method: Method,
        body: &[u8],
        deadline: Option<Instant>,
    ) -> Result<CallId, NotStarted> {
        let call = NewCall { method: method.number(), flags: 0, deadline, body };
        self.begin(session, deadline, |member, more, now| member.start(method, &call, more, now))
    }

    /// As [`start`](ClientGroup::start), for a request of published bytes: the server READs long ones, and nobody copies them
    /// here. All sessions of the group share their registration.
    ///
    /// # Errors
    /// Those of [`Client::start`](crate::Client::start).
    pub fn start_published(
        &mut self,
        session: SessionId,
        method: Method,
        body: &PublishedSlice,
        deadline: Option<Instant>,
    ) -> Result<CallId, NotStarted> {
        let call = NewCall { method: method.number(), flags: 0, deadline, body: &[] };
        self.begin(session, deadline, |member, more, now| member.start_published(method, (&call, body), more, now))
    }

    /// Drives the device if sessions can send no datagram before.
    fn drive_if_crowded(&mut self) {
        if self.port.as_ref().is_some_and(Port::is_crowded) {
            self.drive(Duration::ZERO);
        }
    }

    fn begin(
        &mut self,
        session: SessionId,
        deadline: Option<Instant>,
        start: impl FnOnce(&mut CallerSession, bool, Instant) -> Result<CallId, NotStarted>,
    ) -> Result<CallId, NotStarted> {
        let now = if deadline.is_some() { Instant::now() } else { self.now };
        let more = self.members.have_calls();
        self.drive_if_crowded();
        let Some(member) = self.members.get_mut(session) else {
            return Err(NotStarted::Refused(Status::unavailable(REMOVED).with_executed(Executed::No)));
        };
        let started = start(member, more, now);
        self.members.note(session.index);
        started
    }

    /// Withdraws a call, as [`Client::cancel`](crate::Client::cancel) does.
    pub fn cancel(&mut self, session: SessionId, call: CallId) {
        if let Some(member) = self.members.get_mut(session) {
            member.cancel(call);
            self.members.note(session.index);
        }
    }

    /// Takes the calls that have ended, each with the bytes of its reply. Returns how many they are. Never waits.
    pub fn poll(&mut self, ended: impl FnMut(SessionId, CallId, Result<&[u8], Status>)) -> usize {
        self.poll_for(Duration::ZERO, ended)
    }

    /// As [`poll`](ClientGroup::poll), for a program that has nothing else to do for `longest`. Where other programs want the
    /// processor, it sleeps until something arrives, but no longer. Elsewhere it never waits.
    pub fn poll_for(
        &mut self,
        longest: Duration,
        mut ended: impl FnMut(SessionId, CallId, Result<&[u8], Status>),
    ) -> usize {
        let Some(port) = &self.port else { return 0 };
        self.looks += 1;
        if self.looks >= LOOKS || !self.members.poll_memory() || port.is_unrung() {
            self.looks = 0;
            // No nap while an outcome is there already.
            self.drive(if self.members.ready() == 0 { longest } else { Duration::ZERO });
        }
        let mut count = 0;
        for at in 0..self.members.polled().len() {
            count += self.serve(self.members.polled()[at], &mut ended);
        }
        for _ in 0..self.members.ready() {
            if let Some(index) = self.members.next_ready() {
                count += self.serve(index, &mut ended);
            }
            self.drive_if_crowded();
        }
        count
    }

    /// Hands over the outcomes of a session's calls.
    fn serve(&mut self, index: u32, ended: &mut impl FnMut(SessionId, CallId, Result<&[u8], Status>)) -> usize {
        let Some((id, member)) = self.members.at(index) else { return 0 };
        let mut count = 0;
        while let Some(outcome) = member.next(self.now) {
            count += 1;
            member.hand_over(outcome, |call, reply| ended(id, call, reply));
        }
        self.members.note(index);
        count
    }

    /// Drives the device, and hands its events to the sessions.
    fn drive(&mut self, longest: Duration) {
        self.now = Instant::now();
        if self.now.saturating_duration_since(self.checked) >= CHECK {
            self.checked = self.now;
            self.members.check_connections(CHECKED);
        }
        self.members.pass_timers(self.now);
        let Some(port) = &mut self.port else { return };
        let longest = if self.members.ready() == 0 { longest } else { Duration::ZERO };
        if let Err(error) = port.ring(longest) {
            self.members.end_all(&error.to_string());
        }
        while let Some(event) = self.port.as_mut().and_then(Port::take) {
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: PortEvent) {
        let qpn = match event {
            PortEvent::Datagram(buffer) => {
                if let Some(member) = self.members.of_datagram(&buffer) {
                    member.on_datagram(&buffer, self.now);
                }
                if let Some(port) = &self.port {
                    port.put_datagram(buffer);
                }
                return;
            }
            PortEvent::Imm(qpn, _) | PortEvent::Message(qpn, _) | PortEvent::Failed(qpn, ..) => qpn,
            PortEvent::Sent(ref completion) => completion.qpn(),
        };
        if let Some(member) = self.members.of_qpn(qpn) {
            member.on_event(event);
        }
    }
}

impl std::fmt::Debug for ClientGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientGroup").field("members", &self.members).finish_non_exhaustive()
    }
}

/// Receive buffers for the messages and the datagrams that may come to a session at a time.
fn buffers_of(session: &CallerSession) -> (u32, u32) {
    (u32::from(session.session().slots()) * 2 + 16, session.session().carrier().credits())
}

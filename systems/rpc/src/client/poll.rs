//! The client that its program polls.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use bytes::Bytes;
use longarm::Target;

use crate::client::connect::connect;
use crate::client::session::{CallerSession, Ended, malformed};
use crate::options::ClientOptions;
use crate::published::PublishedSlice;
use crate::service::Method;
use crate::session::{CallId, NewCall, NotStarted};
use crate::status::Status;
use crate::verbs::{Port, PortEvent};
use crate::way::Way;

/// Looks into memory between two looks into the completion queue, in the ways that poll memory.
pub(super) const LOOKS: u32 = 8;
/// The longest time for which [`Client::call`] gives its processor away where other programs want it.
const REST: Duration = Duration::from_millis(1);
/// Time between two checks whether the connection still stands.
pub(super) const CHECK: Duration = Duration::from_millis(5);

/// A client with one session, which its program polls. No other thread and no executor is involved.
///
/// ```no_run
/// use std::time::Duration;
/// use longarm_rpc::{Client, ClientOptions, Method};
///
/// const SAY: Method = Method::new("/echo.Echo/Say");
/// # fn main() -> Result<(), longarm_rpc::Status> {
/// let mut client = Client::connect("host:7471", &ClientOptions::default())?;
/// let reply = client.call(SAY, b"hello", Duration::from_millis(10))?;
/// assert_eq!(reply, "hello");
/// # Ok(())
/// # }
/// ```
pub struct Client {
    port: Port,
    session: CallerSession,
    looks: u32,
    /// The time of the last look at the device.
    now: Instant,
    /// The time of the last look at the connection.
    checked: Instant,
}

/// Figures of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientStats {
    /// Calls that were started.
    pub started: u64,
    /// Calls that ended with a reply of their handler.
    pub ok: u64,
    /// Calls that ended otherwise.
    pub failed: u64,
    /// Packets that were sent again, in the way *datagram*.
    pub repeated: u64,
    /// Datagrams that fitted no call: doubled, late, or forged.
    pub dropped: u64,
}

impl Client {
    /// Connects to the server at an address, a name with a port, or a [`Route`](longarm::Route).
    ///
    /// # Errors
    /// [`Code::Unavailable`](crate::Code::Unavailable) if nobody answers there,
    /// [`Code::FailedPrecondition`](crate::Code::FailedPrecondition) if the way is forced and one side has it not.
    pub fn connect(to: impl Into<Target>, options: &ClientOptions) -> Result<Client, Status> {
        connect(to, options, false)
    }

    pub(super) fn new(port: Port, session: CallerSession) -> Client {
        let now = Instant::now();
        Client { port, session, looks: 0, now, checked: now }
    }

    /// The way of its session.
    pub fn way(&self) -> Way {
        self.session.way()
    }

    /// The reason why it is that way, in words.
    pub fn reason(&self) -> &str {
        self.session.why()
    }

    /// Its figures.
    pub fn stats(&self) -> ClientStats {
        self.session.stats()
    }

    /// Calls that have not ended, those included that the caller has withdrawn and the server has not answered.
    pub fn outstanding(&self) -> usize {
        self.session.session().outstanding()
    }

    /// Sends a request. Its bytes may be used again at once. While other calls are outstanding, it may wait for further
    /// requests or the next [`poll`](Client::poll), for about a millisecond at most.
    ///
    /// # Errors
    /// [`NotStarted::Full`] if there are as many calls as the session may have: poll, then try again.
    /// [`NotStarted::Refused`] if the session has ended, the message is too long or the deadline has passed.
    pub fn start(&mut self, method: Method, body: &[u8], deadline: Option<Instant>) -> Result<CallId, NotStarted> {
        self.start_encoded(method, 0, body, deadline)
    }

    /// As [`start`](Client::start), for a request of published bytes: the server READs long ones, and nobody copies them here.
    ///
    /// # Errors
    /// Those of [`start`](Client::start).
    pub fn start_published(
        &mut self,
        method: Method,
        body: &PublishedSlice,
        deadline: Option<Instant>,
    ) -> Result<CallId, NotStarted> {
        let call = NewCall { method: method.number(), flags: 0, deadline, body: &[] };
        let (more, now) = (self.outstanding() > 0, self.time_for(deadline));
        self.session.start_published(method, (&call, body), more, now)
    }

    pub(crate) fn start_encoded(
        &mut self,
        method: Method,
        flags: u8,
        body: &[u8],
        deadline: Option<Instant>,
    ) -> Result<CallId, NotStarted> {
        let call = NewCall { method: method.number(), flags, deadline, body };
        let (more, now) = (self.outstanding() > 0, self.time_for(deadline));
        self.session.start(method, &call, more, now)
    }

    /// The time, for a call with that deadline.
    fn time_for(&self, deadline: Option<Instant>) -> Instant {
        if deadline.is_some() { Instant::now() } else { self.now }
    }

    /// Withdraws a call. Its handler does not run, unless it has begun. The call does not end in [`poll`](Client::poll).
    pub fn cancel(&mut self, id: CallId) {
        self.session.cancel(id);
    }

    /// Takes the calls that have ended, each with the bytes of its reply. Returns how many they are. Never waits.
    pub fn poll(&mut self, ended: impl FnMut(CallId, Result<&[u8], Status>)) -> usize {
        self.poll_for(Duration::ZERO, ended)
    }

    /// As [`poll`](Client::poll), for a program that has nothing else to do for `longest`. Where other programs want the
    /// processor, it sleeps until something arrives, but no longer. Elsewhere it never waits.
    pub fn poll_for(&mut self, longest: Duration, mut ended: impl FnMut(CallId, Result<&[u8], Status>)) -> usize {
        let mut count = 0;
        while let Some(finished) = self.next(if count == 0 { longest } else { Duration::ZERO }) {
            count += 1;
            self.session.hand_over(finished, &mut ended);
        }
        count
    }

    /// Calls a method and waits for the reply. Polls all the time, so it is for programs that have nothing else to do.
    ///
    /// # Errors
    /// The status of the call. Replies of other calls that arrive meanwhile are dropped.
    pub fn call(&mut self, method: Method, body: &[u8], timeout: Duration) -> Result<Bytes, Status> {
        let deadline = Instant::now() + timeout;
        let id = loop {
            match self.start(method, body, Some(deadline)) {
                Ok(id) => break id,
                Err(NotStarted::Refused(status)) => return Err(status),
                Err(NotStarted::Full) => {
                    self.poll_for(REST, |_, _| ());
                }
            }
        };
        let mut result = None;
        while result.is_none() {
            self.poll_for(REST, |ended, reply| {
                if ended == id {
                    result = Some(reply.map(Bytes::copy_from_slice));
                }
            });
        }
        result.unwrap_or_else(|| Err(malformed()))
    }

    /// As [`connect`](Client::connect), for a client that sleeps while it waits.
    pub(crate) fn connect_sleeping(to: impl Into<Target>, options: &ClientOptions) -> Result<Client, Status> {
        connect(to, options, true)
    }

    /// Calls at a time.
    pub(crate) fn slots(&self) -> u16 {
        self.session.session().slots()
    }

    /// The reason why no further call can be started, if there is one.
    pub(crate) fn closed(&self) -> Option<&str> {
        self.session.session().closed()
    }

    /// True if the server may still answer.
    pub(crate) fn is_up(&self) -> bool {
        self.session.session().is_up()
    }

    /// The body of the reply that [`next`](Client::next) has returned last, if it was short.
    pub(crate) fn body(&self) -> &[u8] {
        self.session.session().body()
    }

    /// True if each reply causes a completion.
    pub(crate) fn wakes(&self) -> bool {
        self.session.wakes()
    }

    /// The first moment at which there is something to do without an event.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.session.session().next_timer()
    }

    /// The device of its session.
    pub(crate) fn device(&self) -> &longarm::Device {
        self.port.device()
    }

    /// A copy of the descriptor that becomes readable at the next completion after [`arm`](Client::arm).
    pub(crate) fn descriptor(&self) -> std::io::Result<OwnedFd> {
        self.port.channel().as_fd().try_clone_to_owned()
    }

    /// Asks for an event at the next completion. False if there is a completion already.
    pub(crate) fn arm(&mut self) -> bool {
        self.port.arm().is_ok() && !self.port.has_event().unwrap_or(true)
    }

    /// Takes the events that were asked for.
    pub(crate) fn take_events(&self) {
        while self.port.channel().next_event().is_some() {}
    }

    /// The next call that has ended.
    pub(crate) fn next(&mut self, longest: Duration) -> Option<Ended> {
        let ended = self.session.next(self.now).or_else(|| self.look_further(longest))?;
        self.looks = 0;
        Some(ended)
    }

    /// Looks into the completion queue, at times only in the ways that poll memory, and then again for a call that has
    /// ended.
    fn look_further(&mut self, longest: Duration) -> Option<Ended> {
        self.looks += 1;
        if self.looks < LOOKS && !self.session.wakes() && !self.port.is_unrung() {
            return None;
        }
        self.looks = 0;
        self.drive(longest);
        self.session.next(self.now)
    }

    /// Drives the device, and hands its events to the session.
    fn drive(&mut self, longest: Duration) {
        self.now = Instant::now();
        if self.now.saturating_duration_since(self.checked) >= CHECK {
            self.checked = self.now;
            self.session.check_connection();
        }
        if let Err(error) = self.port.ring(longest) {
            self.session.on_down(&error.to_string());
        }
        while let Some(event) = self.port.take() {
            match event {
                PortEvent::Datagram(buffer) => {
                    self.session.on_datagram(&buffer, self.now);
                    self.port.put_datagram(buffer);
                }
                event => self.session.on_event(event),
            }
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({}, {} outstanding)", self.way(), self.outstanding())
    }
}

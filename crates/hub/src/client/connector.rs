//! Connects to the hub, starts one if necessary, and gets the answer to one request. Never waits.
//!
//! ```text
//!              no hub listens            ready
//!   pausing ------------------> launching -----> pausing
//!    ^  | connected                  | failed
//!    |  v                            v
//!    | greeting ----> answered     error
//!    |  | the hub exited or died
//!    +--+
//! ```
//!
//! It can continue after an error: the caller decides whether to give up.

use super::error::AttachError;
use crate::channel::{self, MAX_DESCRIPTORS, ReceiveError};
use crate::launch::{self, Launch, LaunchProgress};
use crate::message::{HubRequest, Reply, VERSION};
use crate::rendezvous::{self, HubConnectError, Rendezvous};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Pause after the first failed attempt; doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// Longest pause between attempts to connect. Well below the time that a new hub waits
/// for the clients of a dead one.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Pause after the first failed start of a hub; doubles with each further one.
const FIRST_LAUNCH_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_LAUNCH_PAUSE: Duration = Duration::from_secs(30);
/// The time that a hub may take to start, including the wait for clients of a dead one.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(15);
/// The time that a hub may take to answer, including that wait.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The first request to a hub, after the hello.
#[derive(Debug)]
pub(super) struct FirstRequest {
    /// The program's name, for the hello.
    pub(super) program: String,
    pub(super) request: HubRequest,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Whether to start a hub if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartPolicy {
    Never,
    /// Yes. The hub exits after this time without clients; never if there is none.
    OnDemand(Option<Duration>),
}

/// The hub's answer.
#[derive(Debug)]
pub(super) struct HubAnswer {
    /// The connection.
    pub(super) socket: OwnedFd,
    /// The reply, no error.
    pub(super) reply: Reply,
    /// Its descriptors.
    pub(super) descriptors: Vec<OwnedFd>,
}

/// An attempt to get an answer from a hub.
#[derive(Debug)]
pub(super) struct HubConnector {
    rendezvous: Rendezvous,
    first: FirstRequest,
    start: StartPolicy,
    state: ConnectorState,
    pause: Duration,
    launch_pause: Duration,
    next_launch: Instant,
}

#[derive(Debug)]
enum ConnectorState {
    Pausing { until: Instant },
    Launching { launch: Launch, deadline: Instant },
    Greeting { socket: OwnedFd, welcomed: bool, deadline: Instant },
}

impl HubConnector {
    pub(super) fn new(rendezvous: Rendezvous, first: FirstRequest, start: StartPolicy) -> HubConnector {
        let now = Instant::now();
        HubConnector {
            rendezvous,
            first,
            start,
            state: ConnectorState::Pausing { until: now },
            pause: FIRST_PAUSE,
            launch_pause: FIRST_LAUNCH_PAUSE,
            next_launch: now,
        }
    }

    /// Advances as far as it can without waiting. After `Ok(None)` the caller calls it again when
    /// [`poll_fd`](HubConnector::poll_fd) is readable, or at [`wake`](HubConnector::wake).
    pub(super) fn advance(&mut self, now: Instant) -> Result<Option<HubAnswer>, AttachError> {
        loop {
            let has_advanced = match &mut self.state {
                ConnectorState::Pausing { until } if now < *until => return Ok(None),
                ConnectorState::Pausing { .. } => self.connect(now)?,
                ConnectorState::Launching { .. } => self.launching(now)?,
                ConnectorState::Greeting { .. } => match self.greeting(now)? {
                    Handshake::Answered(answered) => return Ok(Some(*answered)),
                    Handshake::Advanced => true,
                    Handshake::Waiting => false,
                },
            };
            if !has_advanced {
                return Ok(None);
            }
        }
    }

    /// Readable when it can advance, if it waits for a descriptor.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.state {
            ConnectorState::Pausing { .. } => None,
            ConnectorState::Launching { launch, .. } => Some(launch.poll_fd()),
            ConnectorState::Greeting { socket, .. } => Some(socket.as_fd()),
        }
    }

    /// The latest time for the next call.
    pub(super) fn wake(&self) -> Instant {
        match &self.state {
            ConnectorState::Pausing { until } => *until,
            ConnectorState::Launching { deadline, .. } | ConnectorState::Greeting { deadline, .. } => *deadline,
        }
    }

    /// Waits until there is an answer.
    pub(super) fn wait(mut self, timeout: Duration) -> Result<HubAnswer, AttachError> {
        const FOR_EVER: Duration = Duration::from_secs(1 << 32);
        let end = Instant::now() + timeout.min(FOR_EVER);
        loop {
            let now = Instant::now();
            if let Some(answered) = self.advance(now)? {
                return Ok(answered);
            }
            if now >= end {
                return Err(AttachError::TimedOut { doing: self.doing() });
            }
            wait_until_ready(self.poll_fd(), self.wake().min(end) - now)?;
        }
    }

    fn doing(&self) -> &'static str {
        match &self.state {
            ConnectorState::Pausing { .. } => "connecting to the hub",
            ConnectorState::Launching { .. } => "starting the hub",
            ConnectorState::Greeting { .. } => "waiting for the hub's answer",
        }
    }

    /// Connects, or starts a hub. Returns whether it has advanced.
    fn connect(&mut self, now: Instant) -> Result<bool, AttachError> {
        match self.rendezvous.connect() {
            Ok(socket) => self.greet(socket, now),
            Err(HubConnectError::Busy) => Ok(self.pause_from(now)),
            Err(HubConnectError::NobodyListens) => match self.start {
                StartPolicy::OnDemand(idle_timeout) => self.launch(idle_timeout, now),
                StartPolicy::Never => {
                    self.pause_from(now);
                    Err(AttachError::NotRunning)
                }
            },
            Err(HubConnectError::WrongUser { uid }) => {
                self.pause_from(now);
                let path = self.rendezvous.socket_path().display().to_string();
                Err(AttachError::WrongUser { path, uid })
            }
            Err(HubConnectError::System(source)) => {
                self.pause_from(now);
                Err(AttachError::System { what: "connect to the hub", source })
            }
        }
    }

    /// Sends the hello and the request together; the hub answers one after the other.
    fn greet(&mut self, socket: OwnedFd, now: Instant) -> Result<bool, AttachError> {
        let program = self.first.program.clone();
        let hello = HubRequest::Hello { version: VERSION, pid: std::process::id(), program };
        let descriptors: Vec<_> = self.first.descriptors.iter().map(|fd| fd.as_fd()).collect();
        let sent = channel::send(socket.as_fd(), &hello.encode(), &[])
            .and_then(|()| channel::send(socket.as_fd(), &self.first.request.encode(), &descriptors));
        match sent {
            // A hub that has closed the connection may have sent the reason.
            Err(source) if !matches!(source.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                self.pause_from(now);
                Err(AttachError::System { what: "talk to the hub", source })
            }
            _ => {
                self.state = ConnectorState::Greeting { socket, welcomed: false, deadline: now + ANSWER_TIMEOUT };
                Ok(true)
            }
        }
    }

    /// Starts a hub, unless the last attempt was too recent. A hub belongs to the network
    /// namespace of the thread that starts it, which must be this connector's.
    fn launch(&mut self, idle_timeout: Option<Duration>, now: Instant) -> Result<bool, AttachError> {
        let here = rendezvous::network_namespace().is_ok_and(|n| n == self.rendezvous.namespace());
        if now < self.next_launch || !here {
            return Ok(self.pause_from(now));
        }
        self.next_launch = now + self.launch_pause;
        match launch::start(self.rendezvous.path(), idle_timeout) {
            Ok(launch) => {
                self.state = ConnectorState::Launching { launch, deadline: now + LAUNCH_TIMEOUT };
                Ok(true)
            }
            Err(reason) => Err(self.launch_failed(reason, now)),
        }
    }

    fn launching(&mut self, now: Instant) -> Result<bool, AttachError> {
        let ConnectorState::Launching { launch, deadline } = &mut self.state else { return Ok(true) };
        match launch.progress() {
            LaunchProgress::Ready => {
                self.next_launch = now;
                self.state = ConnectorState::Pausing { until: now };
                Ok(true)
            }
            LaunchProgress::Failed(reason) => Err(self.launch_failed(reason, now)),
            LaunchProgress::Pending if now < *deadline => Ok(false),
            LaunchProgress::Pending => Err(self.launch_failed("it does not start".into(), now)),
        }
    }

    fn launch_failed(&mut self, reason: String, now: Instant) -> AttachError {
        self.launch_pause = (self.launch_pause * 2).min(LONGEST_LAUNCH_PAUSE);
        self.pause_from(now);
        AttachError::HubFailed { reason }
    }

    /// Reads the hub's answers.
    fn greeting(&mut self, now: Instant) -> Result<Handshake, AttachError> {
        let ConnectorState::Greeting { socket, deadline, .. } = &self.state else { return Ok(Handshake::Advanced) };
        let (socket, late) = (socket.as_fd(), now >= *deadline);
        let mut message = match channel::receive(socket, MAX_DESCRIPTORS) {
            Ok(message) => message.high(),
            Err(ReceiveError::Nothing) if !late => return Ok(Handshake::Waiting),
            Err(ReceiveError::Closed) => {
                self.pause_from(now);
                return Ok(Handshake::Advanced);
            }
            Err(error) => {
                self.pause_from(now);
                return Err(match error {
                    ReceiveError::Nothing => AttachError::TimedOut { doing: "waiting for the hub's answer" },
                    ReceiveError::NoDescriptorsLeft => AttachError::NoDescriptorsLeft,
                    other => AttachError::protocol(other),
                });
            }
        };
        message.descriptors.iter().for_each(guest::fork::close_in_children);
        let reply = Reply::decode(&message.bytes, &mut message.descriptors);
        self.understand(reply.map_err(AttachError::protocol), message.descriptors, now)
    }

    fn understand(
        &mut self,
        reply: Result<Reply, AttachError>,
        descriptors: Vec<OwnedFd>,
        now: Instant,
    ) -> Result<Handshake, AttachError> {
        let ConnectorState::Greeting { welcomed, .. } = &mut self.state else { return Ok(Handshake::Advanced) };
        let error = match reply {
            Ok(Reply::Welcome { version: VERSION, .. }) if !*welcomed => {
                *welcomed = true;
                return Ok(Handshake::Advanced);
            }
            Ok(Reply::Welcome { version, .. }) if !*welcomed => AttachError::Version { hub: version, ours: VERSION },
            Ok(Reply::Error { code, reason }) => AttachError::from_reply(code, reason),
            Ok(reply) if *welcomed => return Ok(self.answered(reply, descriptors, now)),
            Ok(_) => AttachError::protocol("it did not send a welcome"),
            Err(error) => error,
        };
        self.pause_from(now);
        Err(error)
    }

    fn answered(&mut self, reply: Reply, descriptors: Vec<OwnedFd>, now: Instant) -> Handshake {
        match std::mem::replace(&mut self.state, ConnectorState::Pausing { until: now }) {
            ConnectorState::Greeting { socket, .. } => {
                Handshake::Answered(Box::new(HubAnswer { socket, reply, descriptors }))
            }
            state => {
                self.state = state;
                Handshake::Advanced
            }
        }
    }

    /// Pauses before the next attempt: longer each time, and not the same time in all processes.
    fn pause_from(&mut self, now: Instant) -> bool {
        let spread = Duration::from_micros(u64::from(std::process::id() % 16) * 250);
        self.state = ConnectorState::Pausing { until: now + self.pause + spread };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        false
    }
}

/// The outcome of reading an answer.
enum Handshake {
    Answered(Box<HubAnswer>),
    Advanced,
    Waiting,
}

/// Waits until a descriptor is readable, or for `timeout`.
pub(super) fn wait_until_ready(fd: Option<BorrowedFd<'_>>, timeout: Duration) -> Result<(), AttachError> {
    let mut fds: Vec<PollFd<'_>> = fd.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    let timeout = Timespec::try_from(timeout).ok();
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(AttachError::System { what: "wait for the hub", source: error.into() }),
    }
}

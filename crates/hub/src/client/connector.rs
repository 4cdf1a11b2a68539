//! Finding the hub, or starting it, and getting one answer from it, without ever waiting.
//!
//! ```text
//!              nobody listens            ready
//!   pausing ------------------> launching -----> pausing
//!    ^  | connected                  | failed
//!    |  v                            v
//!    | greeting ----> answered     error
//!    |  | the hub left or died
//!    +--+
//! ```
//!
//! After an error it can go on: the caller decides whether to give up.

use super::AttachError;
use crate::channel::{self, MAX_DESCRIPTORS, ReceiveError};
use crate::launch::{self, Launch, Progress};
use crate::message::{Reply, Request, VERSION};
use crate::rendezvous::{self, ConnectError, Rendezvous};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// Pause after the first failed attempt; doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// Longest pause between attempts to connect. Well below the time for which a new hub waits
/// for the clients of an old one.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Pause after the first failed start of a hub; doubles with each further one.
const FIRST_LAUNCH_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_LAUNCH_PAUSE: Duration = Duration::from_secs(30);
/// How long a hub may take to come up, including the wait for clients of an old one.
const LAUNCH_PATIENCE: Duration = Duration::from_secs(15);
/// How long a hub may take to answer, including that wait.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// What to say to the hub.
#[derive(Debug)]
pub(super) struct Opening {
    /// The program's name.
    pub(super) program: String,
    /// The request after the hello.
    pub(super) request: Request,
    /// The request's descriptors.
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Whether a hub is started if there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// No.
    Never,
    /// Yes, and it is to leave after so long without clients.
    OnDemand(Option<Duration>),
}

/// The hub's answer.
#[derive(Debug)]
pub(super) struct Answered {
    /// The connection.
    pub(super) socket: OwnedFd,
    /// The reply, no error.
    pub(super) reply: Reply,
    /// Its descriptors.
    pub(super) descriptors: Vec<OwnedFd>,
}

/// On the way to an answer.
#[derive(Debug)]
pub(super) struct Approach {
    rendezvous: Rendezvous,
    opening: Opening,
    start: Start,
    step: Step,
    pause: Duration,
    launch_pause: Duration,
    next_launch: Instant,
}

#[derive(Debug)]
enum Step {
    Pausing { until: Instant },
    Launching { launch: Launch, deadline: Instant },
    Greeting { socket: OwnedFd, welcomed: bool, deadline: Instant },
}

impl Approach {
    pub(super) fn new(rendezvous: Rendezvous, opening: Opening, start: Start) -> Approach {
        let now = Instant::now();
        Approach {
            rendezvous,
            opening,
            start,
            step: Step::Pausing { until: now },
            pause: FIRST_PAUSE,
            launch_pause: FIRST_LAUNCH_PAUSE,
            next_launch: now,
        }
    }

    /// Goes on as far as it can without waiting. `Ok(None)`: to be called again when
    /// [`poll_fd`](Approach::poll_fd) is readable or at [`wake`](Approach::wake).
    pub(super) fn advance(&mut self, now: Instant) -> Result<Option<Answered>, AttachError> {
        loop {
            let went_on = match &mut self.step {
                Step::Pausing { until } if now < *until => return Ok(None),
                Step::Pausing { .. } => self.connect(now)?,
                Step::Launching { .. } => self.launching(now)?,
                Step::Greeting { .. } => match self.greeting(now)? {
                    Greeting::Answered(answered) => return Ok(Some(*answered)),
                    Greeting::WentOn => true,
                    Greeting::Waits => false,
                },
            };
            if !went_on {
                return Ok(None);
            }
        }
    }

    /// Readable when it can go on, if it waits for something.
    pub(super) fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.step {
            Step::Pausing { .. } => None,
            Step::Launching { launch, .. } => Some(launch.poll_fd()),
            Step::Greeting { socket, .. } => Some(socket.as_fd()),
        }
    }

    /// When it wants to go on at the latest.
    pub(super) fn wake(&self) -> Instant {
        match &self.step {
            Step::Pausing { until } => *until,
            Step::Launching { deadline, .. } | Step::Greeting { deadline, .. } => *deadline,
        }
    }

    /// Goes on, waiting where necessary, until there is an answer.
    pub(super) fn wait(mut self, timeout: Duration) -> Result<Answered, AttachError> {
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
        match &self.step {
            Step::Pausing { .. } => "connecting to the hub",
            Step::Launching { .. } => "starting the hub",
            Step::Greeting { .. } => "waiting for the hub's answer",
        }
    }

    /// Connects, or starts a hub. Returns whether it can go on at once.
    fn connect(&mut self, now: Instant) -> Result<bool, AttachError> {
        match self.rendezvous.connect() {
            Ok(socket) => self.greet(socket, now),
            Err(ConnectError::Busy) => Ok(self.pause_from(now)),
            Err(ConnectError::NobodyListens) => match self.start {
                Start::OnDemand(idle_timeout) => self.launch(idle_timeout, now),
                Start::Never => {
                    self.pause_from(now);
                    Err(AttachError::NotRunning)
                }
            },
            Err(ConnectError::WrongUser { uid }) => {
                self.pause_from(now);
                let path = self.rendezvous.socket_path().display().to_string();
                Err(AttachError::WrongUser { path, uid })
            }
            Err(ConnectError::System(source)) => {
                self.pause_from(now);
                Err(AttachError::System { what: "connect to the hub", source })
            }
        }
    }

    /// Says hello and the request at once; the hub answers one after the other.
    fn greet(&mut self, socket: OwnedFd, now: Instant) -> Result<bool, AttachError> {
        let program = self.opening.program.clone();
        let hello = Request::Hello { version: VERSION, pid: std::process::id(), program };
        let descriptors: Vec<_> = self.opening.descriptors.iter().map(|fd| fd.as_fd()).collect();
        let sent = channel::send(socket.as_fd(), &hello.encode(), &[])
            .and_then(|()| channel::send(socket.as_fd(), &self.opening.request.encode(), &descriptors));
        match sent {
            // A hub that closed at once may have said why.
            Err(source) if !matches!(source.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                self.pause_from(now);
                Err(AttachError::System { what: "talk to the hub", source })
            }
            _ => {
                self.step = Step::Greeting { socket, welcomed: false, deadline: now + ANSWER_PATIENCE };
                Ok(true)
            }
        }
    }

    /// Starts a hub, unless the last attempt is too short ago. A hub belongs to the network
    /// namespace of the thread that starts it, so it must be the right one.
    fn launch(&mut self, idle_timeout: Option<Duration>, now: Instant) -> Result<bool, AttachError> {
        let here = rendezvous::network_namespace().is_ok_and(|n| n == self.rendezvous.namespace());
        if now < self.next_launch || !here {
            return Ok(self.pause_from(now));
        }
        self.next_launch = now + self.launch_pause;
        match launch::start(self.rendezvous.path(), idle_timeout) {
            Ok(launch) => {
                self.step = Step::Launching { launch, deadline: now + LAUNCH_PATIENCE };
                Ok(true)
            }
            Err(reason) => Err(self.launch_failed(reason, now)),
        }
    }

    fn launching(&mut self, now: Instant) -> Result<bool, AttachError> {
        let Step::Launching { launch, deadline } = &mut self.step else { return Ok(true) };
        match launch.progress() {
            Progress::Ready => {
                self.next_launch = now;
                self.step = Step::Pausing { until: now };
                Ok(true)
            }
            Progress::Failed(reason) => Err(self.launch_failed(reason, now)),
            Progress::Pending if now < *deadline => Ok(false),
            Progress::Pending => Err(self.launch_failed("it does not come up".into(), now)),
        }
    }

    fn launch_failed(&mut self, reason: String, now: Instant) -> AttachError {
        self.launch_pause = (self.launch_pause * 2).min(LONGEST_LAUNCH_PAUSE);
        self.pause_from(now);
        AttachError::HubFailed { reason }
    }

    /// Reads the hub's answers.
    fn greeting(&mut self, now: Instant) -> Result<Greeting, AttachError> {
        let Step::Greeting { socket, deadline, .. } = &self.step else { return Ok(Greeting::WentOn) };
        let (socket, late) = (socket.as_fd(), now >= *deadline);
        let mut message = match channel::receive(socket, MAX_DESCRIPTORS) {
            Ok(message) => message.high(),
            Err(ReceiveError::Nothing) if !late => return Ok(Greeting::Waits),
            Err(ReceiveError::Closed) => {
                self.pause_from(now);
                return Ok(Greeting::WentOn);
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
        message.descriptors.iter().for_each(guest::fork::leave_behind);
        let reply = Reply::decode(&message.bytes, &mut message.descriptors);
        self.understand(reply.map_err(AttachError::protocol), message.descriptors, now)
    }

    fn understand(
        &mut self,
        reply: Result<Reply, AttachError>,
        descriptors: Vec<OwnedFd>,
        now: Instant,
    ) -> Result<Greeting, AttachError> {
        let Step::Greeting { welcomed, .. } = &mut self.step else { return Ok(Greeting::WentOn) };
        let error = match reply {
            Ok(Reply::Welcome { version: VERSION, .. }) if !*welcomed => {
                *welcomed = true;
                return Ok(Greeting::WentOn);
            }
            Ok(Reply::Welcome { version, .. }) if !*welcomed => AttachError::Version { hub: version, ours: VERSION },
            Ok(Reply::Error { code, reason }) => AttachError::from_reply(code, reason),
            Ok(reply) if *welcomed => return Ok(self.answered(reply, descriptors, now)),
            Ok(_) => AttachError::protocol("it did not say welcome"),
            Err(error) => error,
        };
        self.pause_from(now);
        Err(error)
    }

    fn answered(&mut self, reply: Reply, descriptors: Vec<OwnedFd>, now: Instant) -> Greeting {
        match std::mem::replace(&mut self.step, Step::Pausing { until: now }) {
            Step::Greeting { socket, .. } => Greeting::Answered(Box::new(Answered { socket, reply, descriptors })),
            step => {
                self.step = step;
                Greeting::WentOn
            }
        }
    }

    /// Pauses before the next attempt, each time longer, and not all processes alike.
    fn pause_from(&mut self, now: Instant) -> bool {
        let spread = Duration::from_micros(u64::from(std::process::id() % 16) * 250);
        self.step = Step::Pausing { until: now + self.pause + spread };
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        false
    }
}

/// The outcome of reading an answer.
enum Greeting {
    Answered(Box<Answered>),
    WentOn,
    Waits,
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

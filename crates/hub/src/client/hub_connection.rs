//! A session's connection to the hub. When the hub dies it finds or starts another one.
//!
//! Outside this module: it knows no messages of the protocol but the first request.

use super::connector::{FirstRequest, HubAnswer, HubConnector, StartPolicy, wait_until_ready};
use super::error::AttachError;
use super::hub_link::{HubLink, LinkState};
use super::options::AttachOptions;
use crate::channel::{self, MAX_DESCRIPTORS, ReceiveError, ReceivedMessage};
use crate::daemon::DEFAULT_IDLE_TIMEOUT;
use crate::message::{HubRequest, Reply};
use crate::rendezvous::{Rendezvous, RendezvousLocation};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The time that the hub may take to answer an attached process.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The connection.
#[derive(Debug)]
pub(super) struct HubConnection {
    link: HubLink,
    location: RendezvousLocation,
    program: String,
    /// Whether to start a new hub when this one dies.
    start: StartPolicy,
    /// Whether the hub was told to exit: then no new one is started.
    told_to_exit: bool,
    /// The process that attached.
    pid: u32,
}

impl HubConnection {
    /// Finds or starts a hub, and waits for its answer to `request`.
    pub(super) fn open(
        options: &AttachOptions,
        request: HubRequest,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(HubConnection, Reply, Vec<OwnedFd>), AttachError> {
        let start =
            if options.start_hub { StartPolicy::OnDemand(Some(DEFAULT_IDLE_TIMEOUT)) } else { StartPolicy::Never };
        let program = options.program.clone().unwrap_or_else(program_name);
        let first = FirstRequest { program: program.clone(), request, descriptors };
        let rendezvous = Rendezvous::find(options.runtime_dir.as_deref())?;
        let location = rendezvous.location();
        let HubAnswer { socket, reply, descriptors } =
            HubConnector::new(rendezvous, first, start).wait(options.timeout)?;
        let link = HubLink::new(LinkState::Attached(socket))
            .map_err(|source| AttachError::System { what: "attach to the hub", source })?;
        let pid = std::process::id();
        let connection = HubConnection { link, location, program, start, told_to_exit: false, pid };
        Ok((connection, reply, descriptors))
    }

    /// Whether this is the process that attached, not a forked child.
    pub(super) fn is_ours(&self) -> bool {
        std::process::id() == self.pid
    }

    /// A forked child takes the connection over from the process that attached, which has ended.
    pub(super) fn take_over(&mut self) {
        self.pid = std::process::id();
    }

    pub(super) fn is_attached(&self) -> bool {
        matches!(self.link.get(), LinkState::Attached(_))
    }

    /// Whether a hub is connected or may be later.
    pub(super) fn expects_hub(&self) -> bool {
        matches!(self.start, StartPolicy::OnDemand(_))
            && !self.told_to_exit
            && !matches!(self.link.get(), LinkState::Over)
    }

    /// The hub was told to exit.
    pub(super) fn hub_exits(&mut self) {
        self.told_to_exit = true;
    }

    /// Readable when there is something to do. The descriptor never changes.
    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.link.poll_fd()
    }

    /// Reads the hub's next message, if there is one. Descriptors beyond this process's limit are missing.
    ///
    /// # Errors
    /// The reason if the hub is lost.
    pub(super) fn receive(&self) -> Result<Option<ReceivedMessage>, String> {
        let LinkState::Attached(socket) = self.link.get() else { return Ok(None) };
        match channel::receive_even_cut(socket.as_fd(), MAX_DESCRIPTORS) {
            Ok(message) => {
                let message = message.high();
                message.descriptors.iter().for_each(guest::fork::close_in_children);
                Ok(Some(message))
            }
            Err(ReceiveError::Nothing) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends one message, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; `NotConnected` while there is no hub; else as `sendmsg(2)`.
    pub(super) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self.link.get() {
            LinkState::Attached(socket) => channel::send(socket.as_fd(), bytes, descriptors),
            LinkState::Connecting(_) | LinkState::Over => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Makes [`poll_fd`](HubConnection::poll_fd) readable also when there is room to send.
    pub(super) fn want_room(&mut self, wanted: bool) {
        self.link.want_room(wanted);
    }

    /// Waits until [`poll_fd`](HubConnection::poll_fd) is readable, or for `timeout`.
    pub(super) fn wait(&self, timeout: Duration) -> Result<(), AttachError> {
        wait_until_ready(Some(self.poll_fd()), timeout)
    }

    /// The hub is lost: begins to connect to another one, with `request` as the first request.
    pub(super) fn reconnect(&mut self, request: HubRequest, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let first = FirstRequest { program: self.program.clone(), request, descriptors };
        let rendezvous = self.location.open().map_err(io::Error::other)?;
        let start = if self.told_to_exit { StartPolicy::Never } else { self.start };
        let connector = HubConnector::new(rendezvous, first, start);
        self.link.change(|_| LinkState::Connecting(Box::new(connector)));
        Ok(())
    }

    /// Continues to connect, without waiting.
    ///
    /// # Errors
    /// The obstacle this time; the next call may succeed.
    pub(super) fn advance(&mut self, now: Instant) -> Result<Option<HubAnswer>, AttachError> {
        let mut outcome = Ok(None);
        self.link.change(|mut link| {
            if let LinkState::Connecting(connector) = &mut link {
                outcome = connector.advance(now);
            }
            link
        });
        outcome
    }

    /// A new hub has given the right answer.
    pub(super) fn reconnected(&mut self, socket: OwnedFd) {
        self.link.change(|_| LinkState::Attached(socket));
        self.told_to_exit = false;
    }

    /// No hub takes this process back.
    pub(super) fn give_up(&mut self) {
        self.link.change(|_| LinkState::Over);
    }

    /// The latest time for the next call, after [`advance`](HubConnection::advance). After an answer that is now: further
    /// messages may have followed it.
    pub(super) fn wake_after_advance(&self, now: Instant) -> Option<Instant> {
        match self.link.get() {
            LinkState::Connecting(connector) => Some(connector.wake()),
            LinkState::Attached(_) => Some(now),
            LinkState::Over => None,
        }
    }
}

/// The name of this program's file.
pub(super) fn program_name() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_name().map_or_else(|| "?".into(), |name| name.to_string_lossy().into_owned())
}

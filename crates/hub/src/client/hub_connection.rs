//! What every session with the hub lives on: a connection that is found again when its hub dies.
//!
//! What this module does not do: it knows nothing of what a session says, but for the request
//! that it opens with.

use super::approach::{Answered, Approach, Opening, Start, wait_until_ready};
use super::link::{Link, WatchedLink};
use super::{AttachError, AttachOptions};
use crate::channel::{self, MAX_DESCRIPTORS, ReceiveError, ReceivedMessage};
use crate::daemon::DEFAULT_IDLE_TIMEOUT;
use crate::message::{Reply, Request};
use crate::rendezvous::{Rendezvous, RendezvousLocation};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long the hub may take to answer an attached process.
pub(super) const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// A connection to whichever hub there is.
#[derive(Debug)]
pub(super) struct Attachment {
    link: WatchedLink,
    location: RendezvousLocation,
    program: String,
    /// Whether a hub that is lost is replaced by a new one.
    start: Start,
    /// Whether the hub was told to leave, so that nobody wants a new one.
    told_to_leave: bool,
    /// The process that attached.
    pid: u32,
}

impl Attachment {
    /// Finds or starts a hub, and waits for its answer to `request`.
    pub(super) fn open(
        options: &AttachOptions,
        request: Request,
        descriptors: Vec<OwnedFd>,
    ) -> Result<(Attachment, Reply, Vec<OwnedFd>), AttachError> {
        let start = if options.start_hub { Start::OnDemand(Some(DEFAULT_IDLE_TIMEOUT)) } else { Start::Never };
        let program = options.program.clone().unwrap_or_else(program_name);
        let opening = Opening { program: program.clone(), request, descriptors };
        let rendezvous = Rendezvous::find(options.runtime_dir.as_deref())?;
        let location = rendezvous.location();
        let Answered { socket, reply, descriptors } =
            Approach::new(rendezvous, opening, start).wait(options.timeout)?;
        let link = WatchedLink::new(Link::Attached(socket))
            .map_err(|source| AttachError::System { what: "attach to the hub", source })?;
        let pid = std::process::id();
        let attachment = Attachment { link, location, program, start, told_to_leave: false, pid };
        Ok((attachment, reply, descriptors))
    }

    /// Whether this is the process that attached, and not a forked child.
    pub(super) fn is_ours(&self) -> bool {
        std::process::id() == self.pid
    }

    /// A forked child goes on with it: the process that attached has ended.
    pub(super) fn take_over(&mut self) {
        self.pid = std::process::id();
    }

    pub(super) fn is_attached(&self) -> bool {
        matches!(self.link.get(), Link::Attached(_))
    }

    /// Whether a hub that is not there is worth waiting for.
    pub(super) fn expects_hub(&self) -> bool {
        matches!(self.start, Start::OnDemand(_)) && !self.told_to_leave && !matches!(self.link.get(), Link::Over)
    }

    /// The hub was told to leave.
    pub(super) fn leaving(&mut self) {
        self.told_to_leave = true;
    }

    /// Readable when there is something to do; the same for ever.
    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.link.poll_fd()
    }

    /// The next message of the hub, maybe without the descriptors that do not fit into this
    /// process, if there is one; why the hub is lost, if it is.
    pub(super) fn receive(&self) -> Result<Option<ReceivedMessage>, String> {
        let Link::Attached(socket) = self.link.get() else { return Ok(None) };
        match channel::receive_even_cut(socket.as_fd(), MAX_DESCRIPTORS) {
            Ok(message) => {
                let message = message.high();
                message.descriptors.iter().for_each(guest::fork::leave_behind);
                Ok(Some(message))
            }
            Err(ReceiveError::Nothing) => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends one message; never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is no room; `NotConnected` while there is no hub; else as `sendmsg(2)`.
    pub(super) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self.link.get() {
            Link::Attached(socket) => channel::send(socket.as_fd(), bytes, descriptors),
            Link::Seeking(_) | Link::Over => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Whether [`poll_fd`](Attachment::poll_fd) is to be readable when there is room to send, too.
    pub(super) fn want_room(&mut self, wanted: bool) {
        self.link.want_room(wanted);
    }

    /// Waits until [`poll_fd`](Attachment::poll_fd) is readable, or for `timeout`.
    pub(super) fn wait(&self, timeout: Duration) -> Result<(), AttachError> {
        wait_until_ready(Some(self.poll_fd()), timeout)
    }

    /// The hub is lost: begins to look for another one, to be told `request`.
    pub(super) fn look_for_another(&mut self, request: Request, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let opening = Opening { program: self.program.clone(), request, descriptors };
        let rendezvous = self.location.open().map_err(io::Error::other)?;
        let start = if self.told_to_leave { Start::Never } else { self.start };
        let approach = Approach::new(rendezvous, opening, start);
        self.link.change(|_| Link::Seeking(Box::new(approach)));
        Ok(())
    }

    /// Goes on looking for a hub, without waiting.
    ///
    /// # Errors
    /// What stood in the way this time; it can go on nevertheless.
    pub(super) fn seek(&mut self, now: Instant) -> Result<Option<Answered>, AttachError> {
        let mut outcome = Ok(None);
        self.link.change(|mut link| {
            if let Link::Seeking(approach) = &mut link {
                outcome = approach.advance(now);
            }
            link
        });
        outcome
    }

    /// A new hub has answered as it should.
    pub(super) fn found(&mut self, socket: OwnedFd) {
        self.link.change(|_| Link::Attached(socket));
        self.told_to_leave = false;
    }

    /// No hub will have this process.
    pub(super) fn give_up(&mut self) {
        self.link.change(|_| Link::Over);
    }

    /// When there is something to do at the latest. What came right behind an answer is read at once.
    pub(super) fn wake_after_seeking(&self, now: Instant) -> Option<Instant> {
        match self.link.get() {
            Link::Seeking(approach) => Some(approach.wake()),
            Link::Attached(_) => Some(now),
            Link::Over => None,
        }
    }
}

/// The name of this program's file.
pub(super) fn program_name() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_name().map_or_else(|| "?".into(), |name| name.to_string_lossy().into_owned())
}

//! One client's connection: its process, its stage, and the messages still to be sent.

use crate::channel::{self, MAX_DESCRIPTORS, ReceiveError, ReceivedMessage};
use crate::daemon::response::ClientResponse;
use crate::message::{self, Reply, VERSION};
use crate::sys::PeerProcess;
use rustix::process::{Pid, PidfdFlags};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// The time for which a connection may do nothing before it attaches or manages connections.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// Most MADs in an outbox, in addition to those in the socket.
const MAX_QUEUED_MADS: usize = 1 << 15;

/// Most messages that are still read from a client that has closed: more than its socket holds.
const MAX_LEFT_OVER: usize = 4096;

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientStage {
    /// It has not said hello.
    New,
    /// It may ask questions, attach, or manage connections.
    Greeted,
    /// Its request waits until the hub has the UDP port.
    Waiting,
    /// It has slots.
    Attached,
    /// It manages connections.
    Managing,
}

/// A message that could not be sent yet.
#[derive(Debug)]
struct OutgoingMessage {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    is_mad: bool,
}

/// A client's connection.
///
/// While its outbox is not empty the hub reads nothing from the client. A client that floods the hub or
/// does not read stops only itself.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    socket: OwnedFd,
    process: Option<OwnedFd>,
    /// The process as the kernel names it.
    pub(crate) peer: PeerProcess,
    /// The process's number; the client's own word if the kernel does not tell.
    pub(crate) pid: u32,
    pub(crate) program: String,
    pub(crate) stage: ClientStage,
    /// MADs queued for it.
    pub(crate) mads_delivered: u64,
    /// MADs dropped because it did not read.
    pub(crate) mads_lost: u64,
    /// When it last sent something.
    active_at: Instant,
    /// Whether it has yet to be told about a change of the devices. Several changes become one message.
    pub(super) devices_due: bool,
    /// Whether epoll watches for room to send instead of for input.
    pub(super) awaits_room: bool,
    /// The reason to close it after the next flush.
    pub(super) close_reason: Option<String>,
    outbox: VecDeque<OutgoingMessage>,
    mads_in_outbox: usize,
}

impl ClientConnection {
    pub(super) fn new(socket: OwnedFd, peer: PeerProcess) -> ClientConnection {
        ClientConnection {
            socket,
            process: open_process(peer.pid),
            peer,
            pid: peer.pid,
            program: String::new(),
            stage: ClientStage::New,
            mads_delivered: 0,
            mads_lost: 0,
            active_at: Instant::now(),
            devices_due: false,
            awaits_room: false,
            close_reason: None,
            outbox: VecDeque::new(),
            mads_in_outbox: 0,
        }
    }

    /// Becomes readable when the client's process ends, even if a child of it has a copy of
    /// the connection. `None` if the hub cannot see the process.
    pub(super) fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(|process| process.as_fd())
    }

    /// Whether it is attached or manages connections: then it hears about devices, and keeps the hub alive.
    pub(crate) fn is_member(&self) -> bool {
        matches!(self.stage, ClientStage::Attached | ClientStage::Managing)
    }

    /// Takes the client's hello. Returns the answer.
    pub(crate) fn greet(&mut self, version: u32, pid: u32, program: &str) -> ClientResponse {
        let welcome = Reply::Welcome { version: VERSION, pid: std::process::id() };
        if version != VERSION {
            return ClientResponse::Final(welcome);
        }
        self.program = message::clean_program(program);
        if self.pid == 0 {
            self.pid = pid;
        }
        self.stage = ClientStage::Greeted;
        welcome.into()
    }

    /// The client has sent something.
    pub(crate) fn mark_active(&mut self) {
        self.active_at = Instant::now();
    }

    /// When to close the connection if the client does nothing.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        let may_expire = matches!(self.stage, ClientStage::New | ClientStage::Greeted);
        may_expire.then(|| self.active_at + IDLE_CONNECTION)
    }

    /// Reads one message, without waiting.
    pub(crate) fn receive(&self) -> Result<ReceivedMessage, ReceiveError> {
        channel::receive(self.as_fd(), MAX_DESCRIPTORS)
    }

    /// Reads the messages that a client sent before it closed.
    pub(crate) fn left_over(&self) -> impl Iterator<Item = ReceivedMessage> + '_ {
        (0..MAX_LEFT_OVER).map_while(|_| self.receive().ok())
    }

    /// Whether the outbox holds a message.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Puts a reply into the outbox.
    pub(super) fn queue(&mut self, reply: &Reply, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let (bytes, file) = reply.encode()?;
        let descriptors = file.into_iter().chain(descriptors).collect();
        self.outbox.push_back(OutgoingMessage { bytes, descriptors, is_mad: false });
        Ok(())
    }

    /// Puts a MAD's frame into the outbox. Returns whether there was room.
    pub(super) fn queue_mad(&mut self, bytes: Vec<u8>) -> bool {
        let has_room = self.mads_in_outbox < MAX_QUEUED_MADS;
        if has_room {
            self.mads_in_outbox += 1;
            self.mads_delivered += 1;
            self.outbox.push_back(OutgoingMessage { bytes, descriptors: Vec::new(), is_mad: true });
        } else {
            self.mads_lost += 1;
        }
        has_room
    }

    /// Sends a message past the outbox, or not at all.
    ///
    /// # Errors
    /// `WouldBlock` if the client has not read earlier messages; else as `sendmsg(2)`.
    pub(super) fn send_now(&self, reply: &Reply, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if self.has_outgoing() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match reply.encode()? {
            (bytes, None) => channel::send(self.as_fd(), &bytes, descriptors),
            (_, Some(_)) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Sends as much of the outbox as the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while let Some(message) = self.outbox.front() {
            let descriptors: Vec<_> = message.descriptors.iter().map(|fd| fd.as_fd()).collect();
            match channel::send(self.socket.as_fd(), &message.bytes, &descriptors) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                result => result?,
            }
            self.mads_in_outbox -= usize::from(message.is_mad);
            self.outbox.pop_front();
        }
        assert_eq!(self.mads_in_outbox, 0, "an empty outbox holds no MAD");
        Ok(())
    }
}

impl AsFd for ClientConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A descriptor of a process; `None` if the system refuses one.
fn open_process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
}

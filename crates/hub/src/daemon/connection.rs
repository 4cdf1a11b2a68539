//! One connection: who is there, how far it is, and what is still to be said to it.

use crate::channel;
use crate::message::Reply;
use crate::sys::Peer;
use rustix::process::{Pid, PidfdFlags};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// How far a connection is.
#[derive(Debug)]
pub(super) enum Stage {
    /// It has not said hello.
    Fresh,
    /// It may ask.
    Greeted,
    /// It has asked for a slot while there is no port yet.
    Waiting(Wish),
    /// It has slots.
    Attached,
}

/// What a process that attaches wants.
#[derive(Debug)]
pub(super) struct Wish {
    /// The slot that it would like best.
    pub(super) slot: Option<u8>,
    /// Its counter page.
    pub(super) counters: Option<OwnedFd>,
}

/// A message that could not be sent yet.
#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// A client's connection.
///
/// While something is still to be sent, nothing more is read from the client, so that one
/// which floods the hub or does not read only stops itself.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    process: Option<OwnedFd>,
    /// The client's process.
    pub(super) pid: u32,
    /// The client's program.
    pub(super) program: String,
    /// How far it is.
    pub(super) stage: Stage,
    /// Since when it is that far.
    pub(super) since: Instant,
    /// Its slots.
    pub(super) slots: Vec<u8>,
    /// Its counter page.
    pub(super) counters: Option<OwnedFd>,
    /// Whether it has to hear of the devices. Several changes become one message.
    pub(super) devices_due: bool,
    outbox: VecDeque<Outgoing>,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, peer: Peer) -> Connection {
        Connection {
            socket,
            process: process(peer.pid),
            pid: peer.pid,
            program: String::new(),
            stage: Stage::Fresh,
            since: Instant::now(),
            slots: Vec::new(),
            counters: None,
            devices_due: false,
            outbox: VecDeque::new(),
        }
    }

    /// Becomes readable when the client's process ends, even if a child of it has a copy of
    /// the connection. Not there if the process is out of sight.
    pub(super) fn process(&self) -> Option<BorrowedFd<'_>> {
        self.process.as_ref().map(|process| process.as_fd())
    }

    pub(super) fn is_attached(&self) -> bool {
        matches!(self.stage, Stage::Attached)
    }

    /// Goes on to another stage.
    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.since = Instant::now();
    }

    /// Whether something is still to be sent.
    pub(super) fn has_outgoing(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Puts a reply into the outbox.
    pub(super) fn say(&mut self, reply: &Reply, descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let (bytes, file) = reply.encode()?;
        let descriptors = file.into_iter().chain(descriptors).collect();
        self.outbox.push_back(Outgoing { bytes, descriptors });
        Ok(())
    }

    /// Sends what can be sent without waiting.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while let Some(message) = self.outbox.front() {
            let descriptors: Vec<_> = message.descriptors.iter().map(|fd| fd.as_fd()).collect();
            match channel::send(self.socket.as_fd(), &message.bytes, &descriptors) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                result => result?,
            }
            self.outbox.pop_front();
        }
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A descriptor of a process; `None` if it cannot be had.
fn process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()
}

//! One connection: who is there, how far it is, and what is still to be said to it.

use crate::channel;
use crate::mad::ClosingMessage;
use crate::message::Reply;
use crate::sys::Peer;
use rustix::process::{Pid, PidfdFlags};
use std::collections::{BTreeMap, VecDeque};
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
    /// It manages connections.
    Managing,
}

/// What a process wants that needs the port.
#[derive(Debug)]
pub(super) enum Wish {
    /// A slot.
    Slot {
        /// The one that it would like best.
        slot: Option<u8>,
        /// What it leaves with the hub.
        belongings: Belongings,
    },
    /// To manage connections, with the number that it had if it had one.
    Manage(Option<u16>),
}

/// What an attached client leaves with the hub.
#[derive(Debug, Default)]
pub(super) struct Belongings {
    /// Its counter page.
    pub(super) counters: Option<OwnedFd>,
    /// What others need to share memory with it.
    pub(super) shm: Option<ShmOffer>,
}

/// What a client hands to those who are introduced to it. The hub only passes it on.
#[derive(Debug)]
pub(super) struct ShmOffer {
    /// What it shows to all of them.
    pub(super) export: OwnedFd,
    /// What wakes it.
    pub(super) wake: OwnedFd,
}

impl Belongings {
    /// Takes what came along with a request, if it is as much as the request says.
    pub(super) fn take(counters: bool, shm: bool, descriptors: Vec<OwnedFd>) -> Option<Belongings> {
        if descriptors.len() != Belongings::count(counters, shm) {
            return None;
        }
        let mut rest = descriptors.into_iter();
        let counters = if counters { rest.next() } else { None };
        let shm = rest.next().zip(rest.next()).map(|(export, wake)| ShmOffer { export, wake });
        Some(Belongings { counters, shm })
    }

    /// How many descriptors belong to a request.
    pub(super) fn count(counters: bool, shm: bool) -> usize {
        usize::from(counters) + 2 * usize::from(shm)
    }
}

/// Most MADs that a client may have unread, beside those in its socket.
const MAX_UNREAD_MADS: usize = 1 << 15;

/// What belongs to a client that manages connections.
#[derive(Debug)]
pub(super) struct Managing {
    /// Its number.
    pub(super) number: u16,
    /// Its last messages.
    pub(super) closing: BTreeMap<u32, ClosingMessage>,
    /// MADs sent for it.
    pub(super) sent: u64,
}

impl Managing {
    pub(super) fn new(number: u16) -> Managing {
        Managing { number, closing: BTreeMap::new(), sent: 0 }
    }
}

/// A message that could not be sent yet.
#[derive(Debug)]
struct Outgoing {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    is_mad: bool,
}

/// A client's connection.
///
/// While something is still to be sent, nothing more is read from the client, so that one
/// which floods the hub or does not read only stops itself.
#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    process: Option<OwnedFd>,
    /// Who the kernel says it is.
    pub(super) peer: Peer,
    /// The client's process; its own word for it if the kernel does not tell.
    pub(super) pid: u32,
    /// The client's program.
    pub(super) program: String,
    /// How far it is.
    pub(super) stage: Stage,
    /// Since when it is that far.
    pub(super) since: Instant,
    /// Its slots.
    pub(super) slots: Vec<u8>,
    /// What it left with the hub.
    pub(super) belongings: Belongings,
    /// Whether it has to hear of the devices. Several changes become one message.
    pub(super) devices_due: bool,
    /// What belongs to a client that manages connections.
    pub(super) managing: Option<Box<Managing>>,
    /// MADs given to it.
    pub(super) mads_delivered: u64,
    /// MADs that were too many for it.
    pub(super) mads_lost: u64,
    /// Whether the hub watches for room to send instead of for input.
    pub(super) awaits_room: bool,
    outbox: VecDeque<Outgoing>,
    mads_in_outbox: usize,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, peer: Peer) -> Connection {
        Connection {
            socket,
            process: process(peer.pid),
            peer,
            pid: peer.pid,
            program: String::new(),
            stage: Stage::Fresh,
            since: Instant::now(),
            slots: Vec::new(),
            belongings: Belongings::default(),
            devices_due: false,
            managing: None,
            mads_delivered: 0,
            mads_lost: 0,
            awaits_room: false,
            outbox: VecDeque::new(),
            mads_in_outbox: 0,
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

    /// Whether it wants to hear the news.
    pub(super) fn is_member(&self) -> bool {
        matches!(self.stage, Stage::Attached | Stage::Managing)
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
        self.outbox.push_back(Outgoing { bytes, descriptors, is_mad: false });
        Ok(())
    }

    /// Sends a message at once, or not at all.
    ///
    /// # Errors
    /// `WouldBlock` if the client has not read what it was sent before; else as `sendmsg(2)`.
    pub(super) fn say_at_once(&self, reply: &Reply, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if self.has_outgoing() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match reply.encode()? {
            (bytes, None) => channel::send(self.as_fd(), &bytes, descriptors),
            (_, Some(_)) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Puts a MAD into the outbox. Returns whether there was room.
    pub(super) fn give_mad(&mut self, bytes: Vec<u8>) -> bool {
        let room = self.mads_in_outbox < MAX_UNREAD_MADS;
        if room {
            self.mads_in_outbox += 1;
            self.mads_delivered += 1;
            self.outbox.push_back(Outgoing { bytes, descriptors: Vec::new(), is_mad: true });
        } else {
            self.mads_lost += 1;
        }
        room
    }

    /// Sends what can be sent without waiting.
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

//! Objects of both processes, told on the socket between them.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::{AsFd, BorrowedFd};

use memory::ObjectFile;

use crate::channel::{Channel, Extent, Kind, Message, Received};
use crate::error::Death;
use crate::link::Link;
use crate::objects::{Object, Refused};

/// Most messages that are read at once.
const MAX_AT_ONCE: usize = 1024;

/// What was counted on the socket.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    refused: AtomicU64,
}

/// What came of serving the socket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Objects of ours that the peer asks for: offer them again if they are still there.
    pub wanted: Vec<u32>,
    /// Whether the peer has withdrawn objects. Whoever holds one should let go of it: its memory is kept meanwhile.
    pub withdrawn: bool,
    /// Whether there is more to read, or something waits for room: serve again soon.
    pub unfinished: bool,
}

impl Link {
    /// Tells the peer of an object, or remembers to do so. False if too much waits already; the
    /// peer will ask for it when it needs it.
    pub fn offer_object(&self, object: u32, file: &ObjectFile) -> bool {
        let extent = Extent { start: file.start, len_bytes: file.len_bytes };
        self.say(Kind::Offered, object, extent, Some(file.fd.as_fd()))
    }

    /// Tells the peer that an object is gone. Nobody uses it: its keys were closed and the peer's
    /// accesses waited for.
    pub fn withdraw_object(&self, object: u32) -> bool {
        self.say(Kind::Withdrawn, object, Extent::default(), None)
    }

    /// Asks for an object that a key of the peer lies in and that is not here.
    pub fn want_object(&self, object: u32) -> bool {
        self.say(Kind::Wanted, object, Extent::default(), None)
    }

    /// A process need not tell itself anything.
    fn say(&self, kind: Kind, object: u32, extent: Extent, fd: Option<BorrowedFd<'_>>) -> bool {
        self.channel.as_ref().is_none_or(|channel| channel.send(kind, object, extent, fd))
    }

    /// Objects of the peer that were not mapped: too many, twice the same, or unfit.
    pub fn objects_refused(&self) -> u64 {
        self.counters.refused.load(Relaxed)
    }

    /// Reads what is in the socket and sends what waits; never blocks.
    pub fn serve_socket(&self) -> Served {
        let mut served = Served::default();
        let (Some(channel), Some(_one)) = (&self.channel, self.reader.try_lock()) else { return served };
        if self.is_dead() {
            self.peer_is_gone();
            return served;
        }
        served.unfinished = true;
        for _ in 0..MAX_AT_ONCE {
            if !self.take_message(&mut served) {
                served.unfinished = false;
                self.peer_is_gone();
                break;
            }
        }
        served.unfinished |= channel.flush();
        served.unfinished &= !self.is_dead();
        served
    }

    /// An object of the peer, kept mapped for as long as it is held. If it is not here, what tells of it
    /// may be in the socket. If that does not help either, [`want_object`](Link::want_object) and do
    /// without.
    #[inline]
    pub fn object(&self, object: u32) -> Option<Object> {
        self.peer().object(object).or_else(|| self.fetch_object(object))
    }

    #[cold]
    fn fetch_object(&self, object: u32) -> Option<Object> {
        let _one = self.reader.lock();
        for _ in 0..MAX_AT_ONCE {
            let found = self.peer().object(object);
            // What else there is to read is for [`serve_socket`](Link::serve_socket), which can answer.
            let is_told = self.channel.as_ref().is_some_and(Channel::tells_of_object);
            if found.is_some() || !is_told || !self.take_message(&mut Served::default()) {
                return found;
            }
        }
        None
    }

    /// Reads one message. False if there is none.
    fn take_message(&self, served: &mut Served) -> bool {
        let Some(channel) = &self.channel else { return false };
        match channel.receive() {
            Received::Message(message) => self.heard(message, served),
            Received::Nothing => return false,
            Received::Closed => self.die(Death::Gone),
            Received::Garbage => self.die(Death::BrokenSocket),
        }
        !self.is_dead()
    }

    fn heard(&self, message: Message, served: &mut Served) {
        let Message { kind, object, extent, fd } = message;
        match (kind, fd) {
            (Kind::Offered, Some(fd)) => match self.peer().objects.insert(object, extent, fd) {
                // It was asked for while it was on its way.
                Ok(()) | Err(Refused::Twice) => {}
                Err(Refused::Full | Refused::Unfit) => {
                    self.counters.refused.fetch_add(1, Relaxed);
                }
            },
            (Kind::Offered, None) => self.die(Death::BrokenSocket),
            (Kind::Withdrawn, _) => {
                served.withdrawn |= self.peer().objects.remove(object);
            }
            (Kind::Wanted, _) => served.wanted.push(object),
        }
    }
}

#[cfg(test)]
mod tests;

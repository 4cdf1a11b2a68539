//! Messages about the objects of both processes, on the socket between them.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::{AsFd, BorrowedFd};

use memory::ObjectFile;

use crate::channel::{Extent, ObjectChannel, ObjectMessage, ObjectMessageKind, Received};
use crate::error::Death;
use crate::link::Link;
use crate::objects::{NotMapped, Object};

/// The largest number of messages that one call reads.
const MAX_AT_ONCE: usize = 1024;

/// The counters of the socket.
#[derive(Debug, Default)]
pub(crate) struct SocketCounters {
    refused: AtomicU64,
}

/// The result of serving the socket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Served {
    /// Objects of this process that the peer asks for: to be offered again if they still exist.
    pub wanted: Vec<u32>,
    /// True if the peer has withdrawn objects. Holders should drop them: their memory stays allocated
    /// meanwhile.
    pub withdrawn: bool,
    /// True if there is more to read, or a message waits for room: serve again soon.
    pub unfinished: bool,
}

impl Link {
    /// Offers an object to the peer, or queues the offer. False if too much is queued already; the peer will
    /// ask for the object when it needs it.
    pub fn offer_object(&self, object: u32, file: &ObjectFile) -> bool {
        let extent = Extent { start: file.start, len_bytes: file.len_bytes };
        self.send_message(ObjectMessageKind::Offered, object, extent, Some(file.fd.as_fd()))
    }

    /// Tells the peer that an object is gone. Its keys must be closed, and the peer's accesses must have
    /// ended.
    pub fn withdraw_object(&self, object: u32) -> bool {
        self.send_message(ObjectMessageKind::Withdrawn, object, Extent::default(), None)
    }

    /// Asks for an object of one of the peer's keys that is not mapped here.
    pub fn want_object(&self, object: u32) -> bool {
        self.send_message(ObjectMessageKind::Wanted, object, Extent::default(), None)
    }

    /// Sends a message, unless this is a link to itself: a process knows its own objects.
    fn send_message(&self, kind: ObjectMessageKind, object: u32, extent: Extent, fd: Option<BorrowedFd<'_>>) -> bool {
        self.channel.as_ref().is_none_or(|channel| channel.send(kind, object, extent, fd))
    }

    /// The number of the peer's objects that were not mapped: too many, or unfit.
    pub fn objects_refused(&self) -> u64 {
        self.counters.refused.load(Relaxed)
    }

    /// Reads the messages in the socket and sends queued ones. Never blocks.
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

    /// An object of the peer; it stays mapped while it is held. If it is not mapped here, its offer may still
    /// be in the socket. If it is not there either, call [`want_object`](Link::want_object) and proceed
    /// without the object.
    #[inline]
    pub fn object(&self, object: u32) -> Option<Object> {
        self.peer().object(object).or_else(|| self.fetch_object(object))
    }

    #[cold]
    fn fetch_object(&self, object: u32) -> Option<Object> {
        let _one = self.reader.lock();
        for _ in 0..MAX_AT_ONCE {
            let found = self.peer().object(object);
            // All other messages are left for [`serve_socket`](Link::serve_socket), which can answer them.
            let has_news = self.channel.as_ref().is_some_and(ObjectChannel::has_object_news);
            if found.is_some() || !has_news || !self.take_message(&mut Served::default()) {
                return found;
            }
        }
        None
    }

    /// Reads one message. False if there is none, or the link is dead.
    fn take_message(&self, served: &mut Served) -> bool {
        let Some(channel) = &self.channel else { return false };
        match channel.receive() {
            Received::Message(message) => self.handle_message(message, served),
            Received::Nothing => return false,
            Received::Closed => self.die(Death::Gone),
            Received::Garbage => self.die(Death::BrokenSocket),
        }
        !self.is_dead()
    }

    fn handle_message(&self, message: ObjectMessage, served: &mut Served) {
        let ObjectMessage { kind, object, extent, fd } = message;
        match (kind, fd) {
            (ObjectMessageKind::Offered, Some(fd)) => match self.peer().objects.insert(object, extent, fd) {
                // The object was requested while its offer was already on its way.
                Ok(()) | Err(NotMapped::Twice) => {}
                Err(NotMapped::Full | NotMapped::Unfit) => {
                    self.counters.refused.fetch_add(1, Relaxed);
                }
            },
            (ObjectMessageKind::Offered, None) => self.die(Death::BrokenSocket),
            (ObjectMessageKind::Withdrawn, _) => {
                served.withdrawn |= self.peer().objects.remove(object);
            }
            (ObjectMessageKind::Wanted, _) => served.wanted.push(object),
        }
    }
}

#[cfg(test)]
mod tests;

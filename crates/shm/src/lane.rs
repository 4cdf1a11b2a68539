//! Sending and receiving frames on a lane.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use memory::{QuickGuard, QuickMutex, Span};

use crate::cells::{Cells, Found, Receiver, Sender};
use crate::error::Death;
use crate::layout::{MAX_FRAME_BYTES, Ring};
use crate::link::Link;

/// The process' own side of the lanes that it sends on.
#[derive(Default)]
pub(crate) struct Outgoing {
    sender: QuickMutex<Sender>,
}

/// The process' own side of the lanes that it receives on.
#[derive(Default)]
pub(crate) struct Incoming {
    receiver: QuickMutex<Receiver>,
    /// The cell where the next frame will be, for a look without the lock.
    index: AtomicU32,
}

/// The right to send on a lane. Dropping it announces what was committed.
pub struct Producer<'a> {
    link: &'a Link,
    ring: &'a Ring,
    lane: usize,
    sender: QuickGuard<'a, Sender>,
    unannounced: bool,
}

impl<'a> Producer<'a> {
    pub(crate) fn new(link: &'a Link, ring: &'a Ring, lane: usize, outgoing: &'a Outgoing) -> Producer<'a> {
        Producer { link, ring, lane, sender: outgoing.sender.lock(), unannounced: false }
    }

    /// Room for a frame of `len_bytes`, at most [`MAX_FRAME_BYTES`]. Nothing if the ring is full,
    /// the frame too long or the link dead.
    #[inline]
    pub fn reserve(&mut self, len_bytes: usize) -> Option<Room<'_, 'a>> {
        if len_bytes > MAX_FRAME_BYTES || self.link.is_dead() {
            return None;
        }
        match self.sender.reserve(self.ring, len_bytes) {
            Ok(index) => index.map(|index| Room { index, len_bytes, producer: self }),
            Err(_) => {
                self.link.die(Death::BrokenRing);
                None
            }
        }
    }

    /// Whether so much of the lane is free that those who wait for room should go on: a quarter of it. A peer that
    /// takes frames gives so much back, sooner or later. True for a link that is dead: nobody need wait for it.
    pub fn has_much_room(&mut self) -> bool {
        self.sender.has_much_room(self.ring).unwrap_or_else(|_| {
            self.link.die(Death::BrokenRing);
            true
        }) || self.link.is_dead()
    }

    /// Wakes the peer if it sleeps and frames were committed since the last time.
    #[inline]
    pub fn announce(&mut self) {
        if self.unannounced {
            self.unannounced = false;
            self.link.peer().announce();
        }
    }

    /// A bit in shared memory says that the lane is in use. A peer that takes it away loses frames.
    #[inline(always)]
    fn open_lane(&self) {
        let (opened, bit) = (self.link.opened_by_us(), 1 << self.lane);
        if opened.load(Relaxed) & bit == 0 {
            opened.fetch_or(bit, SeqCst);
        }
    }
}

impl Drop for Producer<'_> {
    #[inline]
    fn drop(&mut self) {
        self.announce();
    }
}

/// Room for one frame. Dropped without [`commit`](Room::commit), nothing was sent.
pub struct Room<'p, 'a> {
    producer: &'p mut Producer<'a>,
    index: usize,
    len_bytes: usize,
}

impl Room<'_, '_> {
    /// Its length.
    #[inline(always)]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Copies `data` to `offset`.
    ///
    /// # Panics
    /// If it does not fit.
    #[inline(always)]
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        let fits = offset <= self.len_bytes && data.len() <= self.len_bytes - offset;
        assert!(fits, "a frame is written within its room");
        let to = self.producer.ring.body(self.index).wrapping_add(offset);
        // SAFETY: the room is ours until it is committed, it lies within the ring, and `data` does
        // not: nobody makes references to shared memory. What the peer does to it is the peer's loss.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
    }

    /// The part of `len_bytes` from `offset` on, to copy into; nothing if it is not all inside.
    #[inline]
    pub fn span(&mut self, offset: usize, len_bytes: usize) -> Option<Span<'_>> {
        // SAFETY: the room lies within the ring, which is mapped as long as the link is.
        unsafe { Span::new(self.producer.ring.body(self.index), self.len_bytes) }.part(offset, len_bytes)
    }

    /// Shows the frame to the peer. It is announced when the producer is dropped.
    #[inline(always)]
    pub fn commit(self) {
        let producer = self.producer;
        producer.open_lane();
        producer.sender.commit(producer.ring, self.len_bytes);
        producer.unannounced = true;
    }
}

impl Incoming {
    /// Whether something is there that [`Consumer::peek`] has not given yet. Others may be quicker.
    #[inline(always)]
    pub(crate) fn is_waiting(&self, ring: &Ring) -> bool {
        ring.header(self.index.load(Relaxed) as usize).load(Relaxed) != 0
    }
}

/// The right to receive on a lane.
pub struct Consumer<'a> {
    link: &'a Link,
    ring: &'a Ring,
    incoming: &'a Incoming,
    receiver: QuickGuard<'a, Receiver>,
}

impl<'a> Consumer<'a> {
    pub(crate) fn new(link: &'a Link, ring: &'a Ring, incoming: &'a Incoming) -> Option<Consumer<'a>> {
        let receiver = incoming.receiver.try_lock()?;
        Some(Consumer { link, ring, incoming, receiver })
    }

    /// The next frame; the same again until it is released. Frames that a peer sent before it died
    /// are still there. Nothing if there is none, or if the peer spoiled the ring.
    #[inline]
    pub fn peek(&mut self) -> Option<Frame<'_, 'a>> {
        if self.link.death() == Some(Death::BrokenRing) {
            return None;
        }
        let found = self.receiver.peek(self.ring);
        self.incoming.index.store(self.receiver.index::<Ring>() as u32, Relaxed);
        match found {
            Ok(found) => found.map(|found| Frame { found, consumer: self }),
            Err(_) => {
                self.link.die(Death::BrokenRing);
                None
            }
        }
    }
}

/// A frame that is there. The peer may change its bytes at any time: copy out, then look.
pub struct Frame<'c, 'a> {
    consumer: &'c mut Consumer<'a>,
    found: Found,
}

impl Frame<'_, '_> {
    /// Its length, at most [`MAX_FRAME_BYTES`].
    #[inline(always)]
    pub fn len_bytes(&self) -> usize {
        self.found.body_bytes
    }

    /// Copies `out.len()` bytes from `offset` on; false, and nothing copied, if they are not all inside.
    #[inline(always)]
    #[must_use]
    pub fn copy_out(&self, offset: usize, out: &mut [u8]) -> bool {
        if offset > self.found.body_bytes || out.len() > self.found.body_bytes - offset {
            return false;
        }
        let from = self.consumer.ring.body(self.found.index).wrapping_add(offset);
        // SAFETY: the body lies within the ring, and `out` does not.
        unsafe { core::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        true
    }

    /// The part of `len_bytes` from `offset` on, to copy from; nothing if it is not all inside.
    #[inline]
    pub fn span(&self, offset: usize, len_bytes: usize) -> Option<Span<'_>> {
        // SAFETY: the body lies within the ring, which is mapped as long as the link is.
        unsafe { Span::new(self.consumer.ring.body(self.found.index), self.found.body_bytes) }.part(offset, len_bytes)
    }

    /// Takes the frame off the lane.
    #[inline(always)]
    pub fn release(self) {
        let consumer = self.consumer;
        consumer.receiver.release(consumer.ring, self.found);
        consumer.incoming.index.store(consumer.receiver.index::<Ring>() as u32, Relaxed);
    }
}

#[cfg(test)]
mod tests;

//! Sending and receiving frames on a lane.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use memory::{QuickGuard, QuickMutex, Span};

use crate::cells::{Cells, FoundFrame, RingReceiver, RingSender};
use crate::error::Death;
use crate::layout::{LaneRing, MAX_FRAME_BYTES};
use crate::link::Link;

/// This process' own state of a lane that it sends on.
#[derive(Default)]
pub(crate) struct OutgoingLane {
    sender: QuickMutex<RingSender>,
}

/// This process' own state of a lane that it receives on.
#[derive(Default)]
pub(crate) struct IncomingLane {
    receiver: QuickMutex<RingReceiver>,
    /// The index of the next frame's first cell, for polls without the lock.
    index: AtomicU32,
}

/// The right to send on a lane. Dropping it announces the committed frames.
pub struct Producer<'a> {
    link: &'a Link,
    ring: &'a LaneRing,
    lane: usize,
    sender: QuickGuard<'a, RingSender>,
    unannounced: bool,
}

impl<'a> Producer<'a> {
    pub(crate) fn new(link: &'a Link, ring: &'a LaneRing, lane: usize, outgoing: &'a OutgoingLane) -> Producer<'a> {
        Producer { link, ring, lane, sender: outgoing.sender.lock(), unannounced: false }
    }

    /// Room for a frame of `len_bytes`, at most [`MAX_FRAME_BYTES`]. `None` if the ring is full, the frame
    /// too long or the link dead.
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

    /// True if a quarter of the lane is free, so that senders that wait for room should resume. A peer that
    /// takes frames frees that much sooner or later. Also true for a dead link, since waiting for it is
    /// useless.
    pub fn has_much_room(&mut self) -> bool {
        self.sender.has_much_room(self.ring).unwrap_or_else(|_| {
            self.link.die(Death::BrokenRing);
            true
        }) || self.link.is_dead()
    }

    /// Wakes the peer if it sleeps and frames were committed since the last call.
    #[inline]
    pub fn announce(&mut self) {
        if self.unannounced {
            self.unannounced = false;
            self.link.peer().announce();
        }
    }

    /// Sets the bit in shared memory that marks the lane as used. A peer that clears it loses frames.
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

/// Room for one frame. If it is dropped without [`commit`](Room::commit), nothing is sent.
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
    /// If the data does not fit.
    #[inline(always)]
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        let fits = offset <= self.len_bytes && data.len() <= self.len_bytes - offset;
        assert!(fits, "a frame is written within its room");
        let to = self.producer.ring.body(self.index).wrapping_add(offset);
        // SAFETY: the room belongs to this producer until it is committed and lies within the ring. `data`
        // does not, since no references to shared memory exist. Concurrent writes of the peer only damage its
        // own frame.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
    }

    /// The part of `len_bytes` from `offset` on, to copy into; `None` if it is not all inside.
    #[inline]
    pub fn span(&mut self, offset: usize, len_bytes: usize) -> Option<Span<'_>> {
        // SAFETY: the room lies within the ring, which is mapped for the lifetime of the link.
        unsafe { Span::new(self.producer.ring.body(self.index), self.len_bytes) }.part(offset, len_bytes)
    }

    /// Publishes the frame to the peer. It is announced when the producer is dropped.
    #[inline(always)]
    pub fn commit(self) {
        let producer = self.producer;
        producer.open_lane();
        producer.sender.commit(producer.ring, self.len_bytes);
        producer.unannounced = true;
    }
}

impl IncomingLane {
    /// True if a frame is there that [`Consumer::peek`] has not returned yet. Another thread may take it
    /// first.
    #[inline(always)]
    pub(crate) fn is_waiting(&self, ring: &LaneRing) -> bool {
        ring.header(self.index.load(Relaxed) as usize).load(Relaxed) != 0
    }
}

/// The right to receive on a lane.
pub struct Consumer<'a> {
    link: &'a Link,
    ring: &'a LaneRing,
    incoming: &'a IncomingLane,
    receiver: QuickGuard<'a, RingReceiver>,
}

impl<'a> Consumer<'a> {
    pub(crate) fn new(link: &'a Link, ring: &'a LaneRing, incoming: &'a IncomingLane) -> Option<Consumer<'a>> {
        let receiver = incoming.receiver.try_lock()?;
        Some(Consumer { link, ring, incoming, receiver })
    }

    /// The next frame; the same one until it is released. Frames from a peer that has died are still there.
    /// `None` if there is no frame, or if the peer broke the ring.
    #[inline]
    pub fn peek(&mut self) -> Option<Frame<'_, 'a>> {
        if self.link.death() == Some(Death::BrokenRing) {
            return None;
        }
        let found = self.receiver.peek(self.ring);
        self.incoming.index.store(self.receiver.index::<LaneRing>() as u32, Relaxed);
        match found {
            Ok(found) => found.map(|found| Frame { found, consumer: self }),
            Err(_) => {
                self.link.die(Death::BrokenRing);
                None
            }
        }
    }
}

/// A received frame. The peer may change its bytes at any time: copy out, then check.
pub struct Frame<'c, 'a> {
    consumer: &'c mut Consumer<'a>,
    found: FoundFrame,
}

impl Frame<'_, '_> {
    /// Its length, at most [`MAX_FRAME_BYTES`].
    #[inline(always)]
    pub fn len_bytes(&self) -> usize {
        self.found.body_bytes
    }

    /// Copies `out.len()` bytes from `offset` on. If they are not all inside, returns false and copies
    /// nothing.
    #[inline(always)]
    #[must_use]
    pub fn copy_out(&self, offset: usize, out: &mut [u8]) -> bool {
        if offset > self.found.body_bytes || out.len() > self.found.body_bytes - offset {
            return false;
        }
        let from = self.consumer.ring.body(self.found.index).wrapping_add(offset);
        // SAFETY: the body lies within the ring, and `out` does not, since no references to shared memory
        // exist.
        unsafe { core::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        true
    }

    /// The part of `len_bytes` from `offset` on, to copy from; `None` if it is not all inside.
    #[inline]
    pub fn span(&self, offset: usize, len_bytes: usize) -> Option<Span<'_>> {
        // SAFETY: the body lies within the ring, which is mapped for the lifetime of the link.
        unsafe { Span::new(self.consumer.ring.body(self.found.index), self.found.body_bytes) }.part(offset, len_bytes)
    }

    /// Removes the frame from the lane.
    #[inline(always)]
    pub fn release(self) {
        let consumer = self.consumer;
        consumer.receiver.release(consumer.ring, self.found);
        consumer.incoming.index.store(consumer.receiver.index::<LaneRing>() as u32, Relaxed);
    }
}

#[cfg(test)]
mod tests;

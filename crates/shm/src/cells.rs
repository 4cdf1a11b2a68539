//! A ring of cells between one producer and one consumer, with the rules of access to each cell.
//!
//! ```text
//!  cell:   | header, 8 bytes | 56 bytes |      frame: header | body ............ | in 1..n cells
//!  header: | position of the cell + 1 (32 bits) | length of the body + 1 or SKIP (32 bits) |, 0 = nothing yet
//!
//!  ... released | frame | frame | 0 ...      the cell after the last frame always has an empty header
//! ```
//!
//! The producer writes a body and clears the header of the cell that follows the frame. Then it stores the
//! frame's own header, with release. So the consumer never mistakes body bytes of an earlier lap for a
//! header. A producer that dies at any instruction leaves an empty header after the last whole frame. A frame
//! does not wrap: a frame without a body skips the rest of the lap.
//!
//! The consumer publishes its position from time to time; the producer reads it only when it knows of no more
//! room. Both check what they read: a number that no honest peer can have written means that the ring is
//! broken.
//!
//! This file contains only the protocol, so that a model check can run it on small rings.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::sync::AtomicU64;

/// The size of a cell in bytes.
pub(crate) const CELL_BYTES: usize = 64;
/// The size of a header in bytes.
pub(crate) const HEADER_BYTES: usize = 8;
/// The length field of a frame that only skips to the beginning of the ring.
const SKIP: u32 = u32::MAX;

/// The shared words of a ring.
pub(crate) trait Cells {
    /// The number of cells: a power of two.
    const COUNT: u64;
    /// The longest body, in bytes.
    const MAX_BODY: usize;
    /// The header of a cell; `index` is less than `COUNT`.
    fn header(&self, index: usize) -> &AtomicU64;
    /// The consumer's published position: all cells before it are released.
    fn head(&self) -> &AtomicU64;
}

/// The ring holds a value that no honest peer writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken;

/// The number of cells for a body.
#[inline(always)]
pub(crate) fn cells_of(body_bytes: usize) -> u64 {
    (HEADER_BYTES + body_bytes).div_ceil(CELL_BYTES) as u64
}

/// The producer's side. Positions count cells since the creation of the ring.
#[derive(Debug, Default)]
pub(crate) struct RingSender {
    /// The position of the next frame.
    next: u64,
    /// The consumer's position as last read.
    head: u64,
    /// From `next` up to this position (exclusive) all headers are empty.
    empty: u64,
}

impl RingSender {
    /// Makes room for a body; returns the index of its first cell. `None` if the ring is full.
    #[inline(always)]
    pub(crate) fn reserve<C: Cells>(&mut self, cells: &C, body_bytes: usize) -> Result<Option<usize>, Broken> {
        let wanted = cells_of(body_bytes);
        let left = C::COUNT - self.next % C::COUNT;
        let skipped = if wanted > left { left } else { 0 };
        // One more cell, for the empty header after the frame.
        if !self.has_room::<C>(skipped + wanted + 1) && !self.refresh_head::<C>(cells, skipped + wanted + 1)? {
            return Ok(None);
        }
        if skipped > 0 {
            self.publish(cells, skipped, SKIP);
        }
        Ok(Some((self.next % C::COUNT) as usize))
    }

    /// True if a quarter of the ring is free: the consumer publishes its position at least that often.
    pub(crate) fn has_much_room<C: Cells>(&mut self, cells: &C) -> Result<bool, Broken> {
        Ok(self.has_room::<C>(C::COUNT / 4) || self.refresh_head::<C>(cells, C::COUNT / 4)?)
    }

    /// Publishes the frame whose body was written at the index from [`reserve`](RingSender::reserve).
    #[inline(always)]
    pub(crate) fn commit<C: Cells>(&mut self, cells: &C, body_bytes: usize) {
        self.publish(cells, cells_of(body_bytes), body_bytes as u32 + 1);
        // Clears the header after the next frame here, off the latency path of that frame.
        if self.empty == self.next + 1 && self.has_room::<C>(2) {
            self.clear(cells, self.next + 1);
        }
    }

    fn publish<C: Cells>(&mut self, cells: &C, count: u64, length: u32) {
        let (first, follower) = (self.next, self.next + count);
        if self.empty <= follower {
            self.clear(cells, follower);
        }
        let header = u64::from((first as u32).wrapping_add(1)) << 32 | u64::from(length);
        self.next = follower;
        cells.header((first % C::COUNT) as usize).store(header, Release);
    }

    #[inline(always)]
    fn clear<C: Cells>(&mut self, cells: &C, position: u64) {
        cells.header((position % C::COUNT) as usize).store(0, Relaxed);
        self.empty = position + 1;
    }

    #[inline(always)]
    fn has_room<C: Cells>(&self, count: u64) -> bool {
        self.next + count <= self.head + C::COUNT
    }

    #[cold]
    fn refresh_head<C: Cells>(&mut self, cells: &C, count: u64) -> Result<bool, Broken> {
        let head = cells.head().load(Acquire);
        if head < self.head || head > self.next {
            return Err(Broken);
        }
        self.head = head;
        Ok(self.has_room::<C>(count))
    }
}

/// A frame that was published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FoundFrame {
    /// The index of its first cell.
    pub(crate) index: usize,
    /// The length of its body, at most `MAX_BODY`; the body ends before the end of the ring.
    pub(crate) body_bytes: usize,
}

/// The consumer's side.
#[derive(Debug, Default)]
pub(crate) struct RingReceiver {
    /// The position of the next frame.
    next: u64,
    /// The last position that was published to the producer.
    published: u64,
}

impl RingReceiver {
    /// The index of the next frame's first cell.
    #[inline(always)]
    pub(crate) fn index<C: Cells>(&self) -> usize {
        (self.next % C::COUNT) as usize
    }

    /// The next frame; `None` if there is none yet.
    #[inline(always)]
    pub(crate) fn peek<C: Cells>(&mut self, cells: &C) -> Result<Option<FoundFrame>, Broken> {
        // A skipping frame is followed by one that does not skip.
        for _ in 0..2 {
            let header = cells.header(self.index::<C>()).load(Acquire);
            if header == 0 {
                self.publish(cells);
                return Ok(None);
            }
            if (header >> 32) as u32 != (self.next as u32).wrapping_add(1) {
                return Err(Broken);
            }
            let left = C::COUNT - self.next % C::COUNT;
            let length = header as u32;
            if length == SKIP {
                self.next += left;
                continue;
            }
            let body_bytes = (length as usize).wrapping_sub(1);
            if body_bytes > C::MAX_BODY || cells_of(body_bytes) > left {
                return Err(Broken);
            }
            return Ok(Some(FoundFrame { index: self.index::<C>(), body_bytes }));
        }
        Err(Broken)
    }

    /// Releases the cells of a frame that [`peek`](RingReceiver::peek) returned.
    #[inline(always)]
    pub(crate) fn release<C: Cells>(&mut self, cells: &C, found: FoundFrame) {
        self.next += cells_of(found.body_bytes);
        if self.next - self.published >= C::COUNT / 4 {
            self.publish(cells);
        }
    }

    #[inline(always)]
    fn publish<C: Cells>(&mut self, cells: &C) {
        if self.published != self.next {
            self.published = self.next;
            cells.head().store(self.next, Release);
        }
    }
}

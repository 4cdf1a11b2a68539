//! The send buffer: bytes lie there, one request's after the other's, until the request is done.

/// Places in a buffer that is used round and round; requests are done in order.
#[derive(Debug)]
pub(crate) struct BufferRing {
    size: u32,
    next: u32,
    free: u32,
}

/// A place: one piece, or two where it goes round.
pub(crate) type RingPlace = [(u32, u32); 2];

impl BufferRing {
    /// All of `size` bytes are free.
    pub(crate) fn new(size: u32) -> BufferRing {
        BufferRing { size, next: 0, free: size }
    }

    /// Bytes that are free.
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// Takes `len` bytes, or as many as there are.
    pub(crate) fn take(&mut self, len: u32) -> RingPlace {
        let len = len.min(self.free);
        let first = len.min(self.size - self.next);
        let place = [(self.next, first), (0, len - first)];
        self.next = if len - first > 0 { len - first } else { (self.next + first) % self.size.max(1) };
        self.free -= len;
        place
    }

    /// The oldest `len` bytes are done with. An empty buffer is used from its start again: a stream of short messages
    /// touches no more memory than it needs.
    pub(crate) fn release(&mut self, len: u32) {
        self.free = self.size.min(self.free.saturating_add(len));
        if self.free == self.size {
            self.next = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_round() {
        let mut ring = BufferRing::new(10);
        assert_eq!(ring.take(6), [(0, 6), (0, 0)]);
        assert_eq!(ring.take(1), [(6, 1), (0, 0)]);
        assert_eq!(ring.free(), 3);
        ring.release(6);
        assert_eq!(ring.take(6), [(7, 3), (0, 3)]);
        assert_eq!(ring.take(100), [(3, 3), (0, 0)]);
        assert_eq!(ring.take(1), [(6, 0), (0, 0)]);
        ring.release(7);
        assert_eq!(ring.take(4), [(6, 4), (0, 0)]);
        assert_eq!(ring.take(1), [(0, 1), (0, 0)]);
    }

    #[test]
    fn starts_again_when_it_is_empty() {
        let mut ring = BufferRing::new(10);
        ring.take(6);
        ring.release(5);
        assert_eq!(ring.take(1), [(6, 1), (0, 0)]);
        ring.release(2);
        assert_eq!(ring.take(7), [(0, 7), (0, 0)]);
    }
}

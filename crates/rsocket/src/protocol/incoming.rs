//! The receive buffer: bytes to read, room that the peer may fill, and its credits.
//!
//! The buffer has two halves. The peer is told of one at a time and fills it from its start to its
//! end, in messages that never leave it. Then it continues with the next that it was told of. It is
//! told of a half again when as many bytes were read.

use std::collections::VecDeque;

use super::ProtocolViolation;

/// Our side of the peer's sending.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    half: u32,
    /// Bytes of each message that has not been read to its end.
    messages: VecDeque<u32>,
    /// Bytes in them.
    ready: u32,
    /// The position of the next byte to read.
    read_at: u32,
    /// Bytes that the peer was told of and has not filled.
    open: u32,
    /// Bytes that it was not told of.
    free: u32,
    /// The next half to tell it of.
    next_half: u32,
    /// Messages that fit.
    capacity: u16,
    /// Messages read to their end.
    consumed: u16,
    /// The number at which credits are due.
    due: u16,
}

/// News for the peer: credits and free halves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CreditGrant {
    /// It may send up to this message; the low 16 bits count.
    pub(crate) limit: u32,
    /// The half of the buffer that it may fill, by its first byte.
    pub(crate) half: Option<u32>,
}

impl ReceiveBuffer {
    /// A buffer of `size` bytes, of which the peer was told the first half, for `capacity`
    /// messages.
    pub(crate) fn new(size: u32, capacity: u16) -> ReceiveBuffer {
        let half = size / 2;
        ReceiveBuffer {
            half,
            messages: VecDeque::new(),
            ready: 0,
            read_at: 0,
            open: half,
            free: half,
            next_half: half,
            capacity,
            consumed: 0,
            due: capacity / 2,
        }
    }

    /// The peer filled the next `len` bytes.
    pub(crate) fn arrived(&mut self, len: u32) -> Result<(), ProtocolViolation> {
        if self.messages.len() > usize::from(self.capacity) {
            return Err(ProtocolViolation::NoCredit);
        }
        self.open = self.open.checked_sub(len).ok_or(ProtocolViolation::NoRoom { announced: len, room: self.open })?;
        self.ready += len;
        self.messages.push_back(len);
        Ok(())
    }

    /// The peer sent a message without bytes for which it used a credit.
    pub(crate) fn arrived_empty(&mut self) {
        self.consumed = self.consumed.wrapping_add(1);
    }

    /// True if there are bytes to read.
    pub(crate) fn is_ready(&self) -> bool {
        self.ready > 0
    }

    /// The number of bytes to read.
    pub(crate) fn ready_bytes(&self) -> u32 {
        self.ready
    }

    /// The bytes to read, in order, as positions and lengths; the second is empty unless they wrap around.
    pub(crate) fn readable(&self, max: usize) -> [(u32, u32); 2] {
        let len = u32::try_from(max).unwrap_or(u32::MAX).min(self.ready);
        let first = len.min(2 * self.half - self.read_at);
        [(self.read_at, first), (0, len - first)]
    }

    /// The next `len` bytes, which are there, were read.
    pub(crate) fn consume(&mut self, len: u32) {
        let len = len.min(self.ready);
        self.ready -= len;
        self.free += len;
        self.read_at = (self.read_at + len) % (2 * self.half);
        let mut left = len;
        while let Some(message) = self.messages.front_mut() {
            if *message > left {
                *message -= left;
                break;
            }
            left -= *message;
            self.messages.pop_front();
            self.consumed = self.consumed.wrapping_add(1);
        }
    }

    /// True if the peer should hear from us: a half is free, or half of the credits are.
    pub(crate) fn is_grant_due(&self) -> bool {
        self.free >= self.half || self.consumed.wrapping_sub(self.due).cast_signed() >= 0
    }

    /// The news for the peer, which count as told.
    pub(crate) fn grant(&mut self) -> CreditGrant {
        self.due = self.consumed.wrapping_add(self.capacity / 2);
        let limit = u32::from(self.consumed) + u32::from(self.capacity);
        if self.free < self.half {
            return CreditGrant { limit, half: None };
        }
        let half = self.next_half;
        self.free -= self.half;
        self.open += self.half;
        self.next_half = self.half - half;
        CreditGrant { limit, half: Some(half) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_half_is_told_at_once() {
        let mut incoming = ReceiveBuffer::new(128, 8);
        assert!(incoming.is_grant_due());
        assert_eq!(incoming.grant(), CreditGrant { limit: 8, half: Some(64) });
        assert!(!incoming.is_grant_due());
    }

    #[test]
    fn bytes_are_read_in_order_and_round() {
        let mut incoming = ReceiveBuffer::new(128, 8);
        incoming.grant();
        incoming.arrived(60).unwrap();
        incoming.arrived(4).unwrap();
        incoming.arrived(64).unwrap();
        assert_eq!(incoming.readable(1000), [(0, 128), (0, 0)]);
        assert_eq!(incoming.readable(10), [(0, 10), (0, 0)]);
        incoming.consume(100);
        assert_eq!(incoming.grant(), CreditGrant { limit: 10, half: Some(0) });
        incoming.arrived(50).unwrap();
        assert_eq!(incoming.readable(1000), [(100, 28), (0, 50)]);
        incoming.consume(78);
        assert!(!incoming.is_ready());
        assert_eq!(incoming.readable(5), [(50, 0), (0, 0)]);
    }

    #[test]
    fn credits_are_due_when_half_of_them_are_free() {
        let mut incoming = ReceiveBuffer::new(128, 4);
        incoming.grant();
        for _ in 0..4 {
            incoming.arrived(1).unwrap();
        }
        incoming.consume(1);
        assert!(!incoming.is_grant_due());
        incoming.consume(1);
        assert!(incoming.is_grant_due());
        assert_eq!(incoming.grant(), CreditGrant { limit: 6, half: None });
        assert!(!incoming.is_grant_due());
    }

    #[test]
    fn sequence_numbers_wrap() {
        let mut incoming = ReceiveBuffer::new(2, 4);
        for _ in 0..70_000 {
            while incoming.is_grant_due() {
                incoming.grant();
            }
            incoming.arrived(1).unwrap();
            incoming.consume(1);
        }
        assert_eq!(incoming.grant().limit, 70_000 % 65_536 + 4);
    }

    #[test]
    fn a_peer_that_lies_is_found_out() {
        let mut incoming = ReceiveBuffer::new(128, 2);
        assert_eq!(incoming.arrived(65), Err(ProtocolViolation::NoRoom { announced: 65, room: 64 }));
        for _ in 0..3 {
            incoming.arrived(0).unwrap();
        }
        assert_eq!(incoming.arrived(0), Err(ProtocolViolation::NoCredit));
        assert_eq!(incoming.readable(100), [(0, 0), (0, 0)]);
    }

    #[test]
    fn empty_messages_go_with_the_next_read() {
        let mut incoming = ReceiveBuffer::new(128, 4);
        incoming.grant();
        incoming.arrived(0).unwrap();
        incoming.arrived(3).unwrap();
        incoming.arrived_empty();
        assert!(incoming.is_ready());
        incoming.consume(3);
        assert!(incoming.is_grant_due());
        assert_eq!(incoming.grant().limit, 3 + 4);
    }
}

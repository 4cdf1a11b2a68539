//! The inbox.

use std::collections::VecDeque;
use std::net::SocketAddr;

/// A copied datagram counts for this much beside its bytes, so that many small ones do not take much more memory than the
/// program granted.
const OVERHEAD_BYTES: usize = 64;

/// A datagram that nobody has read.
#[derive(Debug)]
pub(super) enum ArrivedDatagram {
    /// It lies in a slot of an end's receive buffer, header and all.
    Received { end: usize, slot: u16, len: u32 },
    /// A copy: its slot takes the next datagram already, or it came over UDP.
    Copied { source: SocketAddr, data: Vec<u8> },
}

/// Datagrams in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    arrivals: VecDeque<ArrivedDatagram>,
    copied_bytes: usize,
}

impl Inbox {
    /// True if a copy of this many bytes fits, if copies may take `most` bytes.
    pub(super) fn has_room(&self, len: usize, most: u32) -> bool {
        self.copied_bytes + len + OVERHEAD_BYTES <= most as usize
    }

    pub(super) fn push(&mut self, arrival: ArrivedDatagram) {
        self.copied_bytes += cost(&arrival);
        self.arrivals.push_back(arrival);
    }

    pub(super) fn first(&self) -> Option<&ArrivedDatagram> {
        self.arrivals.front()
    }

    pub(super) fn pop(&mut self) -> Option<ArrivedDatagram> {
        let arrival = self.arrivals.pop_front()?;
        self.copied_bytes -= cost(&arrival);
        Some(arrival)
    }
}

fn cost(arrival: &ArrivedDatagram) -> usize {
    match arrival {
        ArrivedDatagram::Received { .. } => 0,
        ArrivedDatagram::Copied { data, .. } => data.len() + OVERHEAD_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_no_more_than_they_may() {
        const MOST: u32 = 4000;
        let mut inbox = Inbox::default();
        let mut copies = 0;
        while inbox.has_room(36, MOST) {
            inbox.push(ArrivedDatagram::Copied { source: ([127, 0, 0, 1], 1).into(), data: vec![0; 36] });
            copies += 1;
        }
        inbox.push(ArrivedDatagram::Received { end: 0, slot: 0, len: 8 });
        assert_eq!(copies, 40);
        inbox.pop();
        assert!(inbox.has_room(36, MOST) && !inbox.has_room(37, MOST));
        let left = std::iter::from_fn(|| inbox.pop()).count();
        assert_eq!((left, inbox.copied_bytes), (copies, 0));
    }
}

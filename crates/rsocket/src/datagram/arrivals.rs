//! The inbox.

use std::collections::VecDeque;
use std::net::SocketAddr;

/// Datagrams that came over UDP and may wait; more are lost.
const MAX_FORWARDED: usize = 1024;

/// A datagram that nobody has read.
#[derive(Debug)]
pub(super) enum Arrival {
    /// It lies in a slot of an end's receive buffer, header and all.
    Received { end: usize, slot: u16, len: u32 },
    /// It came over UDP.
    Forwarded { source: SocketAddr, data: Vec<u8> },
}

/// Datagrams in the order of their arrival.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    arrivals: VecDeque<Arrival>,
    forwarded: usize,
}

impl Inbox {
    pub(super) fn push(&mut self, arrival: Arrival) {
        if matches!(arrival, Arrival::Forwarded { .. }) {
            if self.forwarded >= MAX_FORWARDED {
                return;
            }
            self.forwarded += 1;
        }
        self.arrivals.push_back(arrival);
    }

    pub(super) fn first(&self) -> Option<&Arrival> {
        self.arrivals.front()
    }

    pub(super) fn pop(&mut self) -> Option<Arrival> {
        let arrival = self.arrivals.pop_front()?;
        self.forwarded -= usize::from(matches!(arrival, Arrival::Forwarded { .. }));
        Some(arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_wait_that_came_over_udp() {
        let mut inbox = Inbox::default();
        for _ in 0..MAX_FORWARDED + 5 {
            inbox.push(Arrival::Forwarded { source: ([127, 0, 0, 1], 1).into(), data: vec![] });
        }
        inbox.push(Arrival::Received { end: 0, slot: 0, len: 8 });
        let mut count = 0;
        while inbox.pop().is_some() {
            count += 1;
        }
        assert_eq!((count, inbox.forwarded), (MAX_FORWARDED + 1, 0));
    }
}

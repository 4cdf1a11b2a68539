//! The path of datagrams until the link to a process of this host is up.
//!
//! Both processes and the hub must run for a link, which takes milliseconds while all processors are busy. A program that
//! has no response by then repeats its request. So the first datagrams take the wire. Only some do: a full socket loses
//! datagrams, where a full lane makes the sender wait.

use std::time::{Duration, Instant};

/// The time for which datagrams wait for a link; after that the wire serves without limit.
const PATIENCE: Duration = Duration::from_millis(20);
/// The room that a datagram takes in the receiver's buffer beyond its bytes.
const OVERHEAD_BYTES: u64 = 1024;
/// The bytes that may take the wire at first, and with each further millisecond.
const BURST_BYTES: u64 = 64 << 10;
const BYTES_PER_MS: u64 = 16 << 10;
/// The time between the last datagram on the wire and the first one in the lane, which might overtake it.
const LEAD: Duration = Duration::from_micros(100);

/// The path of a datagram while there is no link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meanwhile {
    Wire,
    Hold,
}

/// The wait for one link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkWait {
    since: Instant,
    sent: Option<Instant>,
    sent_bytes: u64,
}

impl LinkWait {
    pub(crate) fn new(now: Instant) -> LinkWait {
        LinkWait { since: now, sent: None, sent_bytes: 0 }
    }

    /// The path of the next datagram while the link is not up. `None` if that has taken too long.
    pub(crate) fn send(&mut self, len_bytes: u32, now: Instant) -> Option<Meanwhile> {
        let waited = now.saturating_duration_since(self.since);
        if waited >= PATIENCE {
            return None;
        }
        let bytes = self.sent_bytes + u64::from(len_bytes) + OVERHEAD_BYTES;
        if bytes > BURST_BYTES + BYTES_PER_MS * waited.as_millis() as u64 {
            return Some(Meanwhile::Hold);
        }
        (self.sent, self.sent_bytes) = (Some(now), bytes);
        Some(Meanwhile::Wire)
    }

    /// Whether datagrams may take the lane, now that the link is up.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.sent.is_none_or(|sent| now.saturating_duration_since(sent) >= LEAD)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::shm::links::{LinkStatus, LinkTable};

    fn sent_at_once(wait: &mut LinkWait, len_bytes: u32, now: Instant) -> u64 {
        std::iter::from_fn(|| Some(wait.send(len_bytes, now))).take_while(|path| *path == Some(Meanwhile::Wire)).count()
            as u64
    }

    #[test]
    fn some_take_the_wire_at_once_and_a_few_more_from_time_to_time() {
        let start = Instant::now();
        let mut wait = LinkWait::new(start);
        assert_eq!(sent_at_once(&mut wait, 0, start), BURST_BYTES / OVERHEAD_BYTES);
        assert_eq!(wait.send(0, start), Some(Meanwhile::Hold));
        let later = start + Duration::from_millis(1);
        assert_eq!(sent_at_once(&mut wait, 0, later), BYTES_PER_MS / OVERHEAD_BYTES);
    }

    #[test]
    fn the_wait_ends() {
        let start = Instant::now();
        let mut wait = LinkWait::new(start);
        assert!(wait.send(4096, start + PATIENCE - Duration::from_nanos(1)).is_some());
        assert_eq!(wait.send(0, start + PATIENCE), None);
    }

    #[test]
    fn each_process_is_asked_for_once_and_has_a_wait_of_its_own() {
        let links = LinkTable::new().unwrap();
        let asked = Cell::new(0);
        let status = |slot| links.status(slot, 0, || asked.set(asked.get() + 1));
        assert!(matches!(status(7), LinkStatus::NotYet(Meanwhile::Wire)));
        std::thread::sleep(PATIENCE);
        assert!(matches!(status(8), LinkStatus::NotYet(Meanwhile::Wire)));
        assert!(matches!(status(7), LinkStatus::Late));
        assert_eq!(asked.get(), 2);
    }

    #[test]
    fn the_first_on_the_lane_keeps_behind_the_last_on_the_wire() {
        let start = Instant::now();
        let mut wait = LinkWait::new(start);
        assert!(wait.is_over(start));
        wait.send(0, start);
        assert!(!wait.is_over(start + LEAD / 2));
        assert!(wait.is_over(start + LEAD));
    }
}

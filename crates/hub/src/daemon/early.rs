//! Requests that come before their listener.
//!
//! Programs tell their peer by other means that they are about to listen, and the peer's request may be
//! faster than the listening: perftest does so. Linux' own way through the kernel is short enough for
//! this to go well; ours is longer, so the hub waits a little before it refuses.

use crate::mad::MadPacket;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How long a request waits for its listener.
const PATIENCE: Duration = Duration::from_millis(100);

/// Requests that wait at most. What is more is refused at once.
const MOST: usize = 64;

/// The requests that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Early {
    held: VecDeque<(Instant, MadPacket)>,
}

impl Early {
    /// Keeps a request for a while; false if too many wait.
    pub(super) fn hold(&mut self, now: Instant, packet: &MadPacket) -> bool {
        let has_room = self.held.len() < MOST;
        if has_room {
            self.held.push_back((now + PATIENCE, packet.clone()));
        }
        has_room
    }

    /// Takes those that have a listener now or have waited long enough.
    pub(super) fn take(&mut self, now: Instant, has_listener: impl Fn(&MadPacket) -> bool) -> Vec<MadPacket> {
        let (taken, held) = self.held.drain(..).partition(|(until, packet)| *until <= now || has_listener(packet));
        self.held = held;
        let taken: VecDeque<(Instant, MadPacket)> = taken;
        taken.into_iter().map(|(_, packet)| packet).collect()
    }

    /// When the oldest has waited long enough.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.held.front().map(|(until, _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn request(first_byte: u8) -> MadPacket {
        let local = IpAddr::from(Ipv4Addr::LOCALHOST);
        MadPacket { local, remote: local, interface: 0, traffic_class: 0, mad: [first_byte; 256] }
    }

    #[test]
    fn a_request_waits_for_its_listener_or_its_time() {
        let (now, mut early) = (Instant::now(), Early::default());
        assert!(early.hold(now, &request(1)) && early.hold(now, &request(2)));
        assert_eq!(early.next_deadline(), Some(now + PATIENCE));
        assert_eq!(early.take(now, |_| false), []);
        assert_eq!(early.take(now, |packet| packet.mad[0] == 2), [request(2)]);
        assert_eq!(early.take(now + PATIENCE, |_| false), [request(1)]);
        assert_eq!(early.next_deadline(), None);
    }

    #[test]
    fn a_flood_is_refused_at_once() {
        let (now, mut early) = (Instant::now(), Early::default());
        assert!((0..MOST).all(|_| early.hold(now, &request(1))));
        assert!(!early.hold(now, &request(1)));
    }
}

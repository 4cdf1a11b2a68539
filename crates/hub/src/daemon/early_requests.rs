//! Connection requests that arrive before their listener.
//!
//! Programs such as perftest tell the peer by other means that they are about to listen. The peer's request
//! may then arrive before `rdma_listen` has reached the hub. In Linux the call takes too little time for
//! this to happen. So the hub waits a little before it refuses a request.

use crate::mad::AddressedMad;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time that a request waits for its listener.
const LISTENER_WAIT: Duration = Duration::from_millis(100);

/// Most requests that wait; further ones are refused.
const MAX_WAITING: usize = 64;

/// The requests that wait, the oldest first.
#[derive(Debug, Default)]
pub(super) struct EarlyRequests {
    held: VecDeque<(Instant, AddressedMad)>,
}

impl EarlyRequests {
    /// Keeps a request for a while. Returns whether there was room.
    pub(super) fn hold(&mut self, now: Instant, packet: &AddressedMad) -> bool {
        let has_room = self.held.len() < MAX_WAITING;
        if has_room {
            self.held.push_back((now + LISTENER_WAIT, packet.clone()));
        }
        has_room
    }

    /// Takes the requests that have a listener or have waited long enough.
    pub(super) fn take(&mut self, now: Instant, has_listener: impl Fn(&AddressedMad) -> bool) -> Vec<AddressedMad> {
        let (taken, held) = self.held.drain(..).partition(|(until, packet)| *until <= now || has_listener(packet));
        self.held = held;
        let taken: VecDeque<(Instant, AddressedMad)> = taken;
        taken.into_iter().map(|(_, packet)| packet).collect()
    }

    /// When the oldest request has waited long enough.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.held.front().map(|(until, _)| *until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn request(first_byte: u8) -> AddressedMad {
        let local = IpAddr::from(Ipv4Addr::LOCALHOST);
        AddressedMad { local, remote: local, interface: 0, traffic_class: 0, mad: [first_byte; 256] }
    }

    #[test]
    fn a_request_waits_for_its_listener_or_its_deadline() {
        let (now, mut early) = (Instant::now(), EarlyRequests::default());
        assert!(early.hold(now, &request(1)) && early.hold(now, &request(2)));
        assert_eq!(early.next_deadline(), Some(now + LISTENER_WAIT));
        assert_eq!(early.take(now, |_| false), []);
        assert_eq!(early.take(now, |packet| packet.mad[0] == 2), [request(2)]);
        assert_eq!(early.take(now + LISTENER_WAIT, |_| false), [request(1)]);
        assert_eq!(early.next_deadline(), None);
    }

    #[test]
    fn the_number_of_waiting_requests_is_limited() {
        let (now, mut early) = (Instant::now(), EarlyRequests::default());
        assert!((0..MAX_WAITING).all(|_| early.hold(now, &request(1))));
        assert!(!early.hold(now, &request(1)));
    }
}

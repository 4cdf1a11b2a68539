//! The waits of a requester: for room in the lane, for a receiver, for a peer.

use core::time::Duration;

use crate::attr::QpAttr;
use crate::time::Time;

/// The first and the longest wait until the lane is tried again. The device tries sooner
/// ([`Qp::resume_sending`](crate::Qp::resume_sending)), since many may wait for one lane.
const ROOM_WAITS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(1));

/// The first and the longest wait for a peer that is not ready.
const PEER_WAITS: (Duration, Duration) = (Duration::from_micros(100), Duration::from_millis(10));

/// A wait for room and a wait for the peer; both may be on.
#[derive(Debug)]
pub(crate) struct ShmWait {
    /// Something of this has changed since the last progress.
    used: bool,
    /// The time until which the peer is left alone; never if it is not.
    until: Time,
    delay: Duration,
    /// When the lane is tried again; never if it is not full.
    room_until: Time,
    room_delay: Duration,
    /// Since when the peer is not there.
    missing_since: Option<Time>,
    rnr_retries: u8,
}

impl Default for ShmWait {
    fn default() -> ShmWait {
        ShmWait {
            used: false,
            until: Time::NEVER,
            delay: Duration::ZERO,
            room_until: Time::NEVER,
            room_delay: Duration::ZERO,
            missing_since: None,
            rnr_retries: 0,
        }
    }
}

impl ShmWait {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.used && (self.until != Time::NEVER || self.is_for_room())
    }

    /// Whether the lane is full.
    #[inline]
    pub(crate) fn is_for_room(&self) -> bool {
        self.room_until != Time::NEVER
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.is_on().then_some(self.until.min(self.room_until))
    }

    /// A request has made progress.
    #[inline]
    pub(crate) fn progress(&mut self) {
        if self.used {
            *self = ShmWait::default();
        }
    }

    pub(crate) fn for_room(&mut self, now: Time) {
        self.used = true;
        self.room_delay = next(self.room_delay, ROOM_WAITS);
        self.room_until = now + self.room_delay;
    }

    /// False if the peer has been missing for as long as the attributes allow
    /// (IB specification 9.7.6.1.3: `retry_count` timeouts after the first).
    pub(crate) fn for_peer(&mut self, now: Time, attr: &QpAttr) -> bool {
        self.used = true;
        let since = *self.missing_since.get_or_insert(now);
        let patience = wire::ack_timeout(attr.timeout).map(|timeout| timeout * (u32::from(attr.retry_count) + 1));
        if patience.is_some_and(|patience| now.since(since) >= patience) {
            return false;
        }
        self.delay = next(self.delay, PEER_WAITS);
        self.until = now + self.delay;
        true
    }

    /// Returns how many times it was so since the last progress.
    pub(crate) fn for_receiver(&mut self, now: Time, delay: Duration) -> u8 {
        self.used = true;
        // The peer is there.
        self.missing_since = None;
        self.rnr_retries = self.rnr_retries.saturating_add(1);
        self.delay = Duration::ZERO;
        self.until = now + delay;
        self.rnr_retries
    }

    pub(crate) fn expire(&mut self, now: Time) {
        if self.until <= now {
            self.until = Time::NEVER;
        }
        if self.room_until <= now {
            self.resume_sending();
        }
    }

    pub(crate) fn resume_sending(&mut self) {
        self.room_until = Time::NEVER;
    }
}

fn next(delay: Duration, (first, most): (Duration, Duration)) -> Duration {
    (delay * 2).clamp(first, most)
}

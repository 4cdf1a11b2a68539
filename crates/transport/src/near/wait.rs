//! What a requester waits for without an answer under way: room, a receiver, a peer.

use core::time::Duration;

use super::requester::PEER_WAITS;
use crate::attr::QpAttr;
use crate::time::Time;

/// How long until the lane is looked at again, at first and at most. The application's polls look sooner.
const ROOM_WAITS: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(1));

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum For {
    Nothing,
    Room,
    Time,
}

/// At most one wait at a time.
#[derive(Debug)]
pub(crate) struct Wait {
    reason: For,
    until: Time,
    delay: Duration,
    /// Since when the peer is not there.
    missing_since: Option<Time>,
    rnr_retries: u8,
}

impl Default for Wait {
    fn default() -> Wait {
        Wait { reason: For::Nothing, until: Time::NEVER, delay: Duration::ZERO, missing_since: None, rnr_retries: 0 }
    }
}

impl Wait {
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.reason != For::Nothing
    }

    /// Whether it is the lane that is full.
    pub(crate) fn is_for_room(&self) -> bool {
        self.reason == For::Room
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.is_on().then_some(self.until)
    }

    /// Something went well.
    #[inline]
    pub(crate) fn progress(&mut self) {
        if self.delay != Duration::ZERO || self.missing_since.is_some() || self.rnr_retries > 0 {
            *self = Wait::default();
        }
    }

    pub(crate) fn for_room(&mut self, now: Time) {
        self.delay = next(self.delay, ROOM_WAITS);
        self.begin(For::Room, now);
    }

    /// False if the peer has been missing for as long as the attributes allow
    /// (IB specification 9.7.6.1.3: `retry_count` timeouts after the first).
    pub(crate) fn for_peer(&mut self, now: Time, attr: &QpAttr) -> bool {
        let since = *self.missing_since.get_or_insert(now);
        let patience = wire::ack_timeout(attr.timeout).map(|timeout| timeout * (u32::from(attr.retry_count) + 1));
        if patience.is_some_and(|patience| now.since(since) >= patience) {
            return false;
        }
        self.delay = next(self.delay, PEER_WAITS);
        self.begin(For::Time, now);
        true
    }

    /// Returns how many times it was so since the last progress.
    pub(crate) fn for_receiver(&mut self, now: Time, delay: Duration) -> u8 {
        self.rnr_retries = self.rnr_retries.saturating_add(1);
        self.delay = delay;
        self.begin(For::Time, now);
        self.rnr_retries
    }

    pub(crate) fn expire(&mut self, now: Time) {
        if self.until <= now {
            self.end();
        }
    }

    pub(crate) fn look_for_room(&mut self) {
        if self.is_for_room() {
            self.end();
        }
    }

    fn begin(&mut self, reason: For, now: Time) {
        self.reason = reason;
        self.until = now + self.delay;
    }

    fn end(&mut self) {
        self.reason = For::Nothing;
        self.until = Time::NEVER;
    }
}

fn next(delay: Duration, (first, most): (Duration, Duration)) -> Duration {
    (delay * 2).clamp(first, most)
}

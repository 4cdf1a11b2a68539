//! The meaning of a lookup's outcome: an object may have expired, and may not be on disk yet.

use crate::client::remote_reader::LookedUp;
use crate::clock::{ClockReading, ExpiryVerdict, now_ns};
use crate::envelope::{Envelope, KvVersion};

/// The outcome of a lookup without the server's program.
pub(crate) enum Answer<'a> {
    Value(&'a [u8], KvVersion),
    Absent,
    /// Only the server can tell: the value may have expired, or may not be on disk yet though the server promises that each value
    /// that is seen is there.
    Doubtful,
    /// The table has a value without an envelope.
    Broken,
}

impl<'a> Answer<'a> {
    /// `since_ns`: a time before the lookup, if the caller has taken one. `durable`: the last change that is on disk, if readers
    /// have to know.
    #[inline]
    pub(crate) fn of(
        (clock, since_ns): (Option<ClockReading>, Option<u64>),
        durable: Option<u64>,
        found: LookedUp<'a>,
    ) -> Answer<'a> {
        let (header, stored) = match found {
            // A key may be absent by a change that is not on disk yet.
            LookedUp::Absent if durable.is_some() => return Answer::Doubtful,
            LookedUp::Absent => return Answer::Absent,
            LookedUp::AskServer => return Answer::Doubtful,
            LookedUp::Object(header, stored) => (header, stored),
        };
        let Some((envelope, value)) = Envelope::split(stored) else { return Answer::Broken };
        if durable.is_some_and(|durable| envelope.stamp > durable) {
            return Answer::Doubtful;
        }
        match judge(clock, since_ns, envelope) {
            ExpiryVerdict::Live => Answer::Value(value, KvVersion::new(envelope.stamp, header)),
            ExpiryVerdict::Expired => Answer::Absent,
            ExpiryVerdict::Unknown => Answer::Doubtful,
        }
    }
}

/// Judges the expiry of a value that a lookup has found. It has expired if it had before the lookup: while the lookup went on,
/// another value may have taken its place. Without a time before the lookup (`since_ns`) nobody knows.
#[inline]
pub(crate) fn judge(clock: Option<ClockReading>, since_ns: Option<u64>, envelope: Envelope) -> ExpiryVerdict {
    let (expires_ns, Some(clock)) = (envelope.expires_ns, clock) else {
        return if envelope.expires_ns == 0 { ExpiryVerdict::Live } else { ExpiryVerdict::Unknown };
    };
    if expires_ns == 0 || clock.judge(expires_ns, now_ns()) == ExpiryVerdict::Live {
        return ExpiryVerdict::Live;
    }
    match since_ns.map(|since_ns| clock.judge(expires_ns, since_ns)) {
        Some(ExpiryVerdict::Expired) => ExpiryVerdict::Expired,
        _ => ExpiryVerdict::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_expires_during_its_lookup_is_doubtful() {
        let now = now_ns();
        let clock = ClockReading { asked_ns: now, server_ns: 1_000_000, answered_ns: now };
        let verdict = |expires_ns, since_ns| judge(Some(clock), since_ns, Envelope { expires_ns, stamp: 1 });
        // It expired at the server's time of `now`, or a second later, or never.
        assert_eq!(verdict(1_000_000, Some(now)), ExpiryVerdict::Expired);
        assert_eq!(verdict(1_000_000, None), ExpiryVerdict::Unknown, "another value may have come meanwhile");
        assert_eq!(verdict(1_000_001, Some(now)), ExpiryVerdict::Unknown, "it was there when the lookup began");
        assert_eq!(verdict(600_000_000_000, None), ExpiryVerdict::Live);
        assert_eq!(
            (verdict(0, None), judge(None, None, Envelope { expires_ns: 0, stamp: 1 })),
            (ExpiryVerdict::Live, ExpiryVerdict::Live)
        );
        assert_eq!(judge(None, Some(now), Envelope { expires_ns: 5, stamp: 1 }), ExpiryVerdict::Unknown);
    }
}

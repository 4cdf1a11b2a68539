//! The meaning of a lookup's outcome: an object may have expired, and may not be on disk yet.

use crate::client::reader::LookedUp;
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
    /// `durable`: the last change that is on disk, if readers have to know.
    #[inline]
    pub(crate) fn of(clock: Option<ClockReading>, durable: Option<u64>, found: LookedUp<'a>) -> Answer<'a> {
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
        match judge(clock, envelope) {
            ExpiryVerdict::Live => Answer::Value(value, KvVersion::new(envelope.stamp, header)),
            ExpiryVerdict::Expired => Answer::Absent,
            ExpiryVerdict::Unknown => Answer::Doubtful,
        }
    }
}

/// Judges the expiry of a value.
#[inline]
pub(crate) fn judge(clock: Option<ClockReading>, envelope: Envelope) -> ExpiryVerdict {
    match (envelope.expires_ns, clock) {
        (0, _) => ExpiryVerdict::Live,
        (expires_ns, Some(clock)) => clock.judge(expires_ns, now_ns()),
        (_, None) => ExpiryVerdict::Unknown,
    }
}

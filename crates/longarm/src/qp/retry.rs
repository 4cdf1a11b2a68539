//! Retries of reliable connections, and the codes in which they travel.

use std::time::Duration;

use crate::error::ResourceError;

/// How long a reliable connection tries before it gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// How long to wait for an answer before sending again. Rounded up to the next of
    /// 4.096 µs · 2^n; zero waits for ever.
    pub ack_timeout: Duration,
    /// How often to send again without an answer: at most 7.
    pub count: u8,
    /// How often to try again if the peer has no receive buffer: at most 6; `None` is for ever.
    pub receiver_not_ready: Option<u8>,
    /// How long the peer is asked to wait if we have no receive buffer.
    pub min_rnr_delay: Duration,
}

impl Default for Retry {
    /// About half a second without an answer; for ever if the peer only has no buffer.
    fn default() -> Retry {
        Retry {
            ack_timeout: Duration::from_micros(67_108),
            count: 7,
            receiver_not_ready: None,
            min_rnr_delay: Duration::from_micros(120),
        }
    }
}

impl Retry {
    /// Checks what has no encoding.
    pub(super) fn check(&self) -> Result<(), ResourceError> {
        let invalid = |what, is: u8, rule| Err(ResourceError::Invalid { what, is: is.into(), rule });
        match self {
            Retry { count: 8.., .. } => invalid("the retry count", self.count, "at most 7"),
            Retry { receiver_not_ready: Some(n @ 7..), .. } => {
                invalid("the receiver-not-ready retry count", *n, "at most 6, or None for ever")
            }
            _ => Ok(()),
        }
    }
}

/// The code of the shortest acknowledge timeout that is no shorter; zero for ever.
pub(super) fn timeout_code(timeout: Duration) -> u8 {
    let codes = (1..32).find(|code| wire::ack_timeout(*code).is_some_and(|t| t >= timeout));
    match timeout.is_zero() {
        true => 0,
        false => codes.unwrap_or(31),
    }
}

/// The code of the shortest RNR delay that is no shorter. Code 0 is the longest.
pub(super) fn rnr_code(delay: Duration) -> u8 {
    (1..32).find(|code| wire::rnr_timer(*code) >= delay).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_round_up_to_the_next_code() {
        let table = [(0, 0), (1, 1), (8, 1), (9, 2), (67_108, 14), (67_109, 15)];
        for (micros, code) in table {
            assert_eq!(timeout_code(Duration::from_micros(micros)), code, "{micros}");
        }
        assert_eq!(timeout_code(Duration::MAX), 31);
    }

    #[test]
    fn rnr_delays_round_up_to_the_next_code() {
        let table = [(0, 1), (10, 1), (11, 2), (120, 7), (121, 8), (491_520, 31), (491_521, 0)];
        for (micros, code) in table {
            assert_eq!(rnr_code(Duration::from_micros(micros)), code, "{micros}");
        }
    }

    #[test]
    fn retry_counts_without_an_encoding_are_refused() {
        assert!(Retry::default().check().is_ok());
        assert!(Retry { count: 8, ..Retry::default() }.check().is_err());
        let receiver_not_ready = Some(7);
        assert!(Retry { receiver_not_ready, ..Retry::default() }.check().is_err());
    }
}

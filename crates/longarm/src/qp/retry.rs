//! Retries of reliable connections, and the codes in which they travel.

use std::time::Duration;

use crate::error::ResourceError;

/// The limits after which a reliable connection gives up.
///
/// ```no_run
/// use longarm::Retry;
///
/// # fn example(domain: longarm::ProtectionDomain, cq: longarm::CompletionQueue) -> Result<(), Box<dyn std::error::Error>> {
/// let patient = Retry { count: 7, ..Retry::default() };
/// let qp = domain.rc(&cq).retry(patient).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retry {
    /// The time without an ACK after which a request is sent again. Rounded up to the next of
    /// 4.096 µs · 2^n; zero waits forever.
    pub ack_timeout: Duration,
    /// The number of repetitions without an ACK: at most 7.
    pub count: u8,
    /// The number of repetitions while the peer has no receive buffer: at most 6; `None` repeats forever.
    pub receiver_not_ready: Option<u8>,
    /// The time that the peer is asked to wait if we have no receive buffer.
    pub min_rnr_delay: Duration,
}

impl Default for Retry {
    /// Gives up after about half a second without an ACK, and never if the peer only has no buffer.
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
    /// Refuses counts that have no encoding.
    pub(super) fn check(&self) -> Result<(), ResourceError> {
        let invalid = |what, is: u8, rule| Err(ResourceError::Invalid { what, is: is.into(), rule });
        match self {
            Retry { count: 8.., .. } => invalid("the retry count", self.count, "at most 7"),
            Retry { receiver_not_ready: Some(n @ 7..), .. } => {
                invalid("the receiver-not-ready retry count", *n, "at most 6, or None to repeat forever")
            }
            _ => Ok(()),
        }
    }
}

/// The code of the shortest ACK timeout that is not shorter than `timeout`; zero waits forever.
pub(super) fn timeout_code(timeout: Duration) -> u8 {
    let codes = (1..32).find(|code| wire::ack_timeout(*code).is_some_and(|t| t >= timeout));
    match timeout.is_zero() {
        true => 0,
        false => codes.unwrap_or(31),
    }
}

/// The code of the shortest RNR delay that is not shorter than `delay`. Code 0 is the longest.
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

//! Times that messages carry as codes of 5 bits.

use core::time::Duration;

/// Shortest and longest time between two repetitions, for any code of the peer.
const ANSWER: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(20));
/// Longest time that an MRA adds.
const LONGEST_SERVICE: Duration = Duration::from_secs(120);
/// Longest TIME-WAIT.
const LONGEST_TIME_WAIT: Duration = Duration::from_secs(10);

/// 4.096 µs · 2^code, for the low 5 bits of `code`: up to 2 hours and 26 minutes.
pub fn of_code(code: u8) -> Duration {
    Duration::from_nanos(4096 << (code & 0x1f))
}

/// The time that a peer takes for its answer, within limits.
pub(crate) fn of_peer(code: u8) -> Duration {
    of_code(code).clamp(ANSWER.0, ANSWER.1)
}

/// The additional time that a peer asks for, within limits.
pub(crate) fn of_peer_service(code: u8) -> Duration {
    of_code(code).min(LONGEST_SERVICE)
}

/// The length of TIME-WAIT: the path's ACK timeout, within limits.
pub(crate) fn time_wait(ack_timeout: u8) -> Duration {
    of_code(ack_timeout).clamp(ANSWER.0, LONGEST_TIME_WAIT)
}

/// The ACK timeout code of a path: twice the packet lifetime plus the ACK delay, rounded as in Linux. The
/// sum of the powers is approximate.
pub(crate) fn ack_timeout(ack_delay: u8, packet_lifetime: u8) -> u8 {
    let (ack_delay, round_trip) = (ack_delay.min(31), packet_lifetime.min(30) + 1);
    let code = if round_trip >= ack_delay {
        round_trip + u8::from(ack_delay >= round_trip - 1)
    } else {
        ack_delay + u8::from(round_trip >= ack_delay - 1)
    };
    code.min(31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_powers_of_two() {
        assert_eq!(of_code(0), Duration::from_nanos(4096));
        assert_eq!(of_code(20), Duration::from_nanos(4096 << 20));
        assert_eq!(of_code(32 + 20), of_code(20));
    }

    #[test]
    fn a_peer_cannot_make_us_wait_for_hours_or_hurry() {
        assert_eq!((of_peer(0), of_peer(31)), ANSWER);
        assert_eq!(of_peer(20), of_code(20));
        assert_eq!((of_peer_service(24), of_peer_service(31)), (of_code(24), LONGEST_SERVICE));
        assert_eq!((time_wait(19), time_wait(31)), (of_code(19), LONGEST_TIME_WAIT));
    }

    #[test]
    fn ack_timeouts_of_linux() {
        for (delay, lifetime, code) in
            [(15, 18, 19), (15, 16, 17), (15, 15, 17), (15, 14, 16), (15, 13, 16), (15, 5, 15)]
        {
            assert_eq!(ack_timeout(delay, lifetime), code, "{delay} {lifetime}");
        }
        assert_eq!(ack_timeout(31, 31), 31);
        assert_eq!(ack_timeout(0, 0), 2);
        assert_eq!(ack_timeout(255, 255), 31);
    }
}

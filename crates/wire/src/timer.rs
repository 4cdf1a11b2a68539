//! Times that queue pair attributes and NAKs carry as 5-bit codes.

use core::time::Duration;

/// RNR NAK timer field, in units of 10 µs (IB specification 9.7.5.2.8, table 45).
const RNR_TENS_OF_US: [u32; 32] = [
    65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096,
    6144, 8192, 12288, 16384, 24576, 32768, 49152,
];

/// The shortest time that a requester waits after an RNR NAK with this timer code: 10 µs to
/// 655.36 ms (code 0). Only the low 5 bits count.
#[inline]
pub fn rnr_timer(code: u8) -> Duration {
    let tens_of_us = RNR_TENS_OF_US[usize::from(code & 0x1f)];
    Duration::from_micros(u64::from(tens_of_us) * 10)
}

/// The ACK timeout of a queue pair: 4.096 µs · 2^code, `None` (no timeout) for code 0
/// (IB specification 9.7.6.1.3). Only the low 5 bits count.
#[inline]
pub fn ack_timeout(code: u8) -> Option<Duration> {
    match code & 0x1f {
        0 => None,
        code => Some(Duration::from_nanos(4096 << code)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnr_timers_of_the_table() {
        for (code, us) in [(0, 655_360), (1, 10), (7, 120), (14, 1280), (20, 10_240), (31, 491_520)] {
            assert_eq!(rnr_timer(code), Duration::from_micros(us), "code {code}");
        }
        assert_eq!(rnr_timer(32 + 14), rnr_timer(14));
    }

    #[test]
    fn rnr_timers_grow_but_for_zero_which_is_the_longest() {
        for code in 1..31 {
            assert!(rnr_timer(code) < rnr_timer(code + 1));
        }
        assert!(rnr_timer(31) < rnr_timer(0));
    }

    #[test]
    fn ack_timeouts_double() {
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(1), Some(Duration::from_nanos(8192)));
        assert_eq!(ack_timeout(14), Some(Duration::from_nanos(67_108_864)));
        for code in 1..31 {
            assert_eq!(ack_timeout(code).map(|t| t * 2), ack_timeout(code + 1));
        }
    }
}

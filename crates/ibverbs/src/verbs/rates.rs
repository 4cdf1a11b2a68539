//! `enum ibv_rate`: static rates of address handles.

use abi::c_int;

/// As rdma-core has them: number, speed in Mb/s, multiple of 2.5 Gb/s (zero where there is none).
const RATES: [(c_int, c_int, c_int); 23] = [
    (2, 2_500, 1),
    (5, 5_000, 2),
    (3, 10_000, 4),
    (6, 20_000, 8),
    (4, 30_000, 12),
    (7, 40_000, 16),
    (8, 60_000, 24),
    (9, 80_000, 32),
    (10, 120_000, 48),
    (11, 14_062, 0),
    (12, 56_250, 0),
    (13, 112_500, 0),
    (14, 168_750, 0),
    (15, 25_781, 0),
    (16, 103_125, 0),
    (17, 206_250, 0),
    (18, 309_375, 0),
    (19, 28_125, 11),
    (20, 53_125, 20),
    (21, 425_000, 160),
    (22, 637_500, 240),
    (23, 850_000, 320),
    (24, 1_275_000, 480),
];
/// `IBV_RATE_MAX`: no limit.
const MAX: c_int = 0;

fn by<R>(
    matches: impl Fn(&(c_int, c_int, c_int)) -> bool,
    answer: impl Fn(&(c_int, c_int, c_int)) -> R,
    otherwise: R,
) -> R {
    RATES.iter().find(|rate| matches(rate)).map_or(otherwise, answer)
}

/// `ibv_rate_to_mult(3)`: −1 if it has none.
pub(crate) extern "C" fn ibv_rate_to_mult(rate: c_int) -> c_int {
    by(|r| r.0 == rate && r.2 > 0, |r| r.2, -1)
}

/// `mult_to_ibv_rate(3)`.
pub(crate) extern "C" fn mult_to_ibv_rate(multiple: c_int) -> c_int {
    by(|r| r.2 == multiple && r.2 > 0, |r| r.0, MAX)
}

/// `ibv_rate_to_mbps(3)`: −1 for an unknown number.
pub(crate) extern "C" fn ibv_rate_to_mbps(rate: c_int) -> c_int {
    by(|r| r.0 == rate, |r| r.1, -1)
}

/// `mbps_to_ibv_rate(3)`.
pub(crate) extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    by(|r| r.1 == mbps, |r| r.0, MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_is_found_both_ways() {
        for (rate, mbps, multiple) in RATES {
            assert_eq!((ibv_rate_to_mbps(rate), mbps_to_ibv_rate(mbps)), (mbps, rate));
            assert_eq!(ibv_rate_to_mult(rate), if multiple > 0 { multiple } else { -1 });
            assert!(multiple == 0 || mult_to_ibv_rate(multiple) == rate);
        }
        assert_eq!((ibv_rate_to_mbps(99), mbps_to_ibv_rate(1), mult_to_ibv_rate(3)), (-1, MAX, MAX));
    }
}

//! Numbers with units that fit a column.

/// `950 ns`, `2.53 µs`, `14.1 ms`.
pub(crate) fn nanoseconds(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.2} µs", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// The same with a fraction below 100 ns: `64.3 ns`.
pub(crate) fn nanoseconds_precise(ns: f64) -> String {
    if ns < 99.95 { format!("{ns:.1} ns") } else { nanoseconds(ns.round() as u64) }
}

/// `4.21 GB/s`, with decimal prefixes, as is usual for networks.
pub(crate) fn bytes_per_second(rate: f64) -> String {
    if rate >= 1e9 { format!("{:.2} GB/s", rate / 1e9) } else { format!("{:.1} MB/s", rate / 1e6) }
}

/// `3.20 M/s`, `950 k/s`.
pub(crate) fn count_per_second(rate: f64) -> String {
    match rate {
        rate if rate < 10e3 => format!("{rate:.0} /s"),
        rate if rate < 1e6 => format!("{:.0} k/s", rate / 1e3),
        _ => format!("{:.2} M/s", rate / 1e6),
    }
}

/// `64 B`, `4 KiB`, `1 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 && b % (1 << 20) == 0 => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 && b % (1 << 10) == 0 => format!("{} KiB", b >> 10),
        b => format!("{b} B"),
    }
}

/// `4.1 MB`: a rounded number of bytes.
pub(crate) fn size_rounded(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(nanoseconds(999), "999 ns");
        assert_eq!(nanoseconds(2_530), "2.53 µs");
        assert_eq!(nanoseconds(14_100_000), "14.10 ms");
        assert_eq!(
            [64.26, 99.96, 570.4].map(nanoseconds_precise),
            ["64.3 ns".to_string(), "100 ns".into(), "570 ns".into()]
        );
        assert_eq!(bytes_per_second(4.214e9), "4.21 GB/s");
        assert_eq!(bytes_per_second(12e6), "12.0 MB/s");
        assert_eq!(count_per_second(3.2e6), "3.20 M/s");
        assert_eq!(count_per_second(950e3), "950 k/s");
        assert_eq!(count_per_second(64.4), "64 /s");
        assert_eq!(
            (size(64), size(4096), size(1 << 20), size(4097)),
            ("64 B".into(), "4 KiB".into(), "1 MiB".into(), "4097 B".into())
        );
    }
}

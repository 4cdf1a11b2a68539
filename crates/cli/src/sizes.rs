//! Sizes and durations as people write them.

use std::time::Duration;

/// Bytes such as 64, 4K, 256M or 8G.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let upper = text.to_ascii_uppercase();
    let short = upper.strip_suffix("IB").or(upper.strip_suffix('B')).unwrap_or(&upper);
    let (digits, shift) = match short.char_indices().next_back() {
        Some((at, 'K')) => (&short[..at], 10),
        Some((at, 'M')) => (&short[..at], 20),
        Some((at, 'G')) => (&short[..at], 30),
        _ => (short, 0),
    };
    let number: Option<u64> = digits.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("{text}: give bytes such as 64, 4K, 256M or 8G"))
}

/// Seconds, with a fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    number.ok_or_else(|| format!("{text}: give seconds such as 10 or 0.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let read = |text| bytes(text).ok();
        assert_eq!(
            (read("64"), read("4K"), read("256MiB"), read("8g")),
            (Some(64), Some(4096), Some(256 << 20), Some(8 << 30))
        );
        assert_eq!((read(""), read("K"), read("4X"), read("99999999999999G")), (None, None, None, None));
        assert_eq!((seconds("0.5").ok(), seconds("-1").ok()), (Some(Duration::from_millis(500)), None));
    }
}

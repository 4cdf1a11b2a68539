//! The speed of two cores without any system call: the lower bound of latency on one host.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::thread;
use std::time::{Duration, Instant};

use super::pin_to_core;

/// Rounds between two reads of the clock.
const TOGETHER: u64 = 256;
/// The value that ends the other thread.
const END: u64 = u64::MAX;

/// A word alone in its pair of cache lines: processors fetch two adjacent lines at once.
#[repr(align(128))]
#[derive(Default)]
struct PaddedWord(AtomicU64);

/// Nanoseconds that a word takes from one core to another: the median over samples of half the
/// round trip. Each direction uses its own cache line.
pub(crate) fn cache_line_ping_pong(duration: Duration) -> f64 {
    let words = Arc::new([PaddedWord::default(), PaddedWord::default()]);
    let theirs = Arc::clone(&words);
    let echo = thread::spawn(move || {
        pin_to_core(1);
        let [there, back] = &*theirs;
        let mut last = 0;
        while last != END {
            last = next(&there.0, last);
            back.0.store(last, Release);
        }
    });
    pin_to_core(0);
    let [there, back] = &*words;
    let (begin, mut samples, mut round) = (Instant::now(), Vec::new(), 0);
    let mut start = begin;
    while samples.is_empty() || start - begin < duration {
        for _ in 0..TOGETHER {
            there.0.store(round + 1, Release);
            round = next(&back.0, round);
        }
        let end = Instant::now();
        samples.push((end - start).as_nanos() as f64 / (2 * TOGETHER) as f64);
        start = end;
    }
    there.0.store(END, Release);
    let _ = echo.join();
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Waits until a word differs from `last`.
fn next(word: &AtomicU64, last: u64) -> u64 {
    loop {
        match word.load(Acquire) {
            same if same == last => spin_loop(),
            new => return new,
        }
    }
}

/// Bytes per second of copies of `len_bytes` within the cache.
pub(crate) fn memory_copy(len_bytes: usize, duration: Duration) -> f64 {
    pin_to_core(0);
    let (from, mut to) = (vec![7u8; len_bytes], vec![0u8; len_bytes]);
    let (start, mut copies) = (Instant::now(), 0u64);
    loop {
        for _ in 0..64 {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        }
        copies += 64;
        let elapsed = start.elapsed();
        if elapsed >= duration {
            return (copies * len_bytes as u64) as f64 / elapsed.as_secs_f64();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_goes_there_and_back() {
        let nanoseconds = cache_line_ping_pong(Duration::from_millis(1));
        assert!(nanoseconds > 0.0 && nanoseconds.is_finite());
    }

    #[test]
    fn copies_are_counted_in_bytes() {
        assert!(memory_copy(4096, Duration::from_millis(1)) > 4096.0);
    }
}

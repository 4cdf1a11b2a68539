//! The trace of a run: always as a hash, and as lines of text on demand.
//!
//! The hash covers every packet, verdict, completion and event with its time.
//! Two runs of one seed that differ anywhere have different hashes.

use std::fmt;

use transport::Time;

/// A record of a run.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

/// FNV-1a, 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

impl Trace {
    /// A new one, which keeps lines if `verbose`.
    pub(crate) fn new(verbose: bool) -> Trace {
        Trace { hash: OFFSET, lines: verbose.then(Vec::new) }
    }

    /// Records an entry: `facts` go into the hash, `text` becomes a line if lines are kept.
    pub(crate) fn note(&mut self, now: Time, facts: &[u64], text: impl FnOnce() -> String) {
        self.mix(now.0);
        for fact in facts {
            self.mix(*fact);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{} {}", Stamp(now), text()));
        }
    }

    fn mix(&mut self, value: u64) {
        for byte in value.to_le_bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
    }

    /// The hash so far.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// The lines, if they were kept.
    pub(crate) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or(&[])
    }
}

/// A time in microseconds, aligned for reading.
struct Stamp(Time);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.0;
        write!(f, "{:>10}.{:03} us", ns / 1000, ns % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_and_the_time_count() {
        let hash = |at: u64, facts: &[u64]| {
            let mut trace = Trace::new(false);
            trace.note(Time(at), facts, || unreachable!("no lines are kept"));
            trace.hash()
        };
        assert_eq!(hash(1, &[2, 3]), hash(1, &[2, 3]));
        let all = [hash(1, &[2, 3]), hash(2, &[2, 3]), hash(1, &[3, 2]), hash(1, &[2])];
        for (i, a) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn lines_are_kept_on_demand() {
        let mut trace = Trace::new(true);
        trace.note(Time(1_234_567), &[], || "hello".into());
        assert_eq!(trace.lines(), ["      1234.567 us hello"]);
    }
}

//! The trace of a run: always as a hash, and as lines on demand.

/// FNV-1a, 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A record of a run. Two runs of one seed that differ anywhere have different hashes.
pub(crate) struct SimTrace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl SimTrace {
    pub(crate) fn new(is_verbose: bool) -> SimTrace {
        SimTrace { hash: OFFSET, lines: is_verbose.then(Vec::new) }
    }

    /// Records an entry: the facts go into the hash, the text becomes a line.
    pub(crate) fn note(&mut self, now_ns: u64, facts: &[u64], text: impl FnOnce() -> String) {
        for fact in facts.iter().chain([&now_ns]) {
            self.hash = (self.hash ^ fact).wrapping_mul(PRIME).rotate_left(23);
        }
        if let Some(lines) = &mut self.lines {
            lines.push(format!("{:>9}.{:03} us {}", now_ns / 1000, now_ns % 1000, text()));
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}

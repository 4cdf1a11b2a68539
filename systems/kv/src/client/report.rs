//! Reports of GETs that the server did not see, so that it knows which keys are in use.

use std::time::{Duration, Instant};

use crate::surroundings::instant;

/// One GET in so many names its key.
const SAMPLE: u64 = 16;
/// GETs between two looks at the clock.
const LOOK: u64 = 64;
/// Time between two reports.
const PERIOD: Duration = Duration::from_secs(1);
/// Tags in one report.
const MOST_TAGS: usize = 512;

/// The GETs since the last report.
pub(crate) struct ReadReport {
    gets: u64,
    /// GETs, and PUTs by the client alone.
    uses: u64,
    tags: Vec<u64>,
    sent: Instant,
}

impl ReadReport {
    pub(crate) fn new() -> ReadReport {
        ReadReport { gets: 0, uses: 0, tags: Vec::new(), sent: instant() }
    }

    /// Counts a GET. `tag` makes the key's tag if it is one of the sample.
    pub(crate) fn count(&mut self, tag: impl FnOnce() -> u64) {
        self.gets += 1;
        self.touch(tag);
    }

    /// Counts a PUT that the server did not see.
    pub(crate) fn touch(&mut self, tag: impl FnOnce() -> u64) {
        self.uses += 1;
        if self.uses % SAMPLE == 1 && self.tags.len() < MOST_TAGS {
            self.tags.push(tag());
        }
    }

    /// The report, if it is due: the number of GETs, and the tags.
    pub(crate) fn take_due(&mut self) -> Option<(u64, Vec<u8>)> {
        let is_due = self.uses > 0 && self.uses.is_multiple_of(LOOK) && instant().duration_since(self.sent) >= PERIOD;
        is_due.then(|| self.take())
    }

    /// All that was counted.
    pub(crate) fn take(&mut self) -> (u64, Vec<u8>) {
        self.sent = instant();
        self.uses = 0;
        let tags = self.tags.drain(..).flat_map(u64::to_le_bytes).collect();
        (std::mem::take(&mut self.gets), tags)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.uses == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_reported() {
        let mut report = ReadReport::new();
        (0..100).for_each(|number| report.count(|| number));
        assert!(report.take_due().is_none(), "not yet");
        let (gets, tags) = report.take();
        assert_eq!((gets, tags.len()), (100, 7 * 8));
        assert!(report.is_empty());
        (0..20).for_each(|number| report.touch(|| number));
        assert!(!report.is_empty());
        let (gets, tags) = report.take();
        assert_eq!((gets, tags.len()), (0, 2 * 8), "PUTs are no GETs");
    }
}

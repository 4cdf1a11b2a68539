//! READs of a reader that travels through a timeline: each takes some time.

use fastrand::Rng;

use crate::lookup::ReadRequest;
use crate::object::ReadGrain;
use crate::sim::plant::Plant;
use crate::sim::timeline::Timeline;
use crate::tree::NODE_BYTES;

/// Copies of an object that a responder tries.
const TRIES: u32 = 16;

/// The time of a reader, and its READs.
pub(crate) struct TravelReads<'a> {
    pub(crate) timeline: &'a Timeline,
    pub(crate) memory_bytes: u64,
    pub(crate) grain: ReadGrain,
    pub(crate) plant: Option<Plant>,
    pub(crate) random: Rng,
    pub(crate) now: usize,
    /// True for trees: some READs of nodes then copy the first words at one moment, and the others at another.
    pub(crate) parts_nodes: bool,
    /// Stores that usually happen during one READ.
    pub(crate) haste: usize,
}

impl TravelReads<'_> {
    /// One READ, which takes some time. Each of its pieces is copied at a time of its own.
    pub(crate) fn read(&mut self, wanted: ReadRequest, lookup_begin: usize, bytes: &mut Vec<u8>) -> Result<(), String> {
        let ReadRequest { at, len_bytes } = wanted;
        if at.checked_add(len_bytes).is_none_or(|end| end > self.memory_bytes) {
            // The device refuses it, and the connection fails: no reader may ask for it.
            return Err(format!("a READ of {len_bytes} bytes at {at}, in {} bytes", self.memory_bytes));
        }
        bytes.resize(len_bytes as usize, 0);
        self.pass(self.haste);
        let begin = self.now;
        self.pass(self.haste);
        let (begin, end) = match self.plant {
            Some(Plant::OldRoots) if at == 0 => (lookup_begin, lookup_begin),
            _ => (begin, self.now),
        };
        let grain = if self.grain == ReadGrain::Line { 64 } else { 8 };
        let (random, is_split) = (&mut self.random, self.haste > 0);
        let middle = random.usize(begin..=end);
        if self.parts_nodes && len_bytes == NODE_BYTES && random.bool() {
            let (mut left, times) = (random.u64(..len_bytes / grain), [begin, end]);
            let times = if random.u8(..4) == 0 { [end, begin] } else { times };
            self.timeline.read(at, bytes, grain, || {
                let time = times[usize::from(left == 0)];
                left = left.saturating_sub(1);
                time
            });
            return Ok(());
        }
        // Most READs see two moments: that mixes more than many moments do.
        let sees_two = random.u8(..4) > 0;
        self.timeline.read(at, bytes, grain, || match (is_split, sees_two) {
            (false, _) => end,
            (true, true) => {
                if random.bool() {
                    begin.max(middle.saturating_sub(1))
                } else {
                    end
                }
            }
            (true, false) => random.usize(begin..=end),
        });
        Ok(())
    }

    /// READs an object as the responder does: until its first word is unlocked, and the same after the copy as before.
    pub(crate) fn read_object(
        &mut self,
        wanted: ReadRequest,
        lookup_begin: usize,
        lock: u64,
        bytes: &mut Vec<u8>,
    ) -> Result<(), String> {
        if self.plant == Some(Plant::PlainReads) {
            return self.read(wanted, lookup_begin, bytes);
        }
        for _ in 0..TRIES {
            let before = self.timeline.word(wanted.at, self.now);
            if before & lock != 0 {
                self.pass(self.haste);
                continue;
            }
            self.read(wanted, lookup_begin, bytes)?;
            if self.timeline.word(wanted.at, self.now) == before {
                bytes[..8].copy_from_slice(&before.to_le_bytes());
                return Ok(());
            }
        }
        bytes.clear();
        bytes.extend_from_slice(&self.timeline.word(wanted.at, self.now).to_le_bytes());
        Ok(())
    }

    pub(crate) fn pass(&mut self, stores: usize) {
        let stores = if stores == 0 || self.random.u8(..3) == 0 { 0 } else { self.random.usize(..=stores * 2) };
        self.now = (self.now + stores).min(self.timeline.end());
    }
}

//! READs: the words come from different moments, in no order, each whole.

use longarm::RemoteKey;

use super::memory::Target;
use super::{EndId, NetEvent, SimNetwork, SimNotice};

/// A READ under way.
pub(super) struct Sampling {
    key: RemoteKey,
    tag: u64,
    bytes: Vec<u8>,
    /// Words that have been read.
    taken: Vec<bool>,
    until: u64,
}

/// Moments at which a READ takes words of an area.
const MOMENTS: u64 = 3;

impl SimNetwork {
    pub(super) fn begin_read(&mut self, reader: EndId, key: &RemoteKey, tag: u64, until: u64) {
        match self.target(reader.peer(), key) {
            None => self.remote_error(reader, "a READ of memory that is not there"),
            Some(target) => {
                let len_bytes = key.len_bytes() as usize;
                let (bytes, taken) = match target {
                    Target::Copy(bytes) => (bytes, Vec::new()),
                    Target::Area { .. } => (vec![0; len_bytes], vec![false; len_bytes.div_ceil(8)]),
                };
                self.sample(reader, Box::new(Sampling { key: *key, tag, bytes, taken, until }));
            }
        }
    }

    /// Takes some of the words, and at the end the rest.
    pub(super) fn sample(&mut self, reader: EndId, mut sampling: Box<Sampling>) {
        if !self.is_up(reader.connection) {
            return;
        }
        let is_last = self.now_ns >= sampling.until;
        match self.target(reader.peer(), &sampling.key) {
            None => return self.remote_error(reader, "a READ of memory that its owner has withdrawn"),
            Some(Target::Copy(_)) => {}
            Some(Target::Area { at, len_bytes }) => self.sample_area(reader, &mut sampling, at, len_bytes, is_last),
        }
        if is_last {
            return self.end_read(reader, *sampling);
        }
        let next = self.now_ns + (sampling.until - self.now_ns).div_ceil(MOMENTS);
        self.agenda.plan(next, NetEvent::Sample { reader, sampling });
    }

    fn sample_area(&mut self, reader: EndId, sampling: &mut Sampling, at: u64, len_bytes: u64, is_last: bool) {
        let Some(area) = self.end(reader.peer()).read_area.clone() else {
            return;
        };
        let now = area.peek(at, len_bytes);
        for (word, is_taken) in sampling.taken.iter_mut().enumerate() {
            if !*is_taken && (is_last || self.rng.u64(..MOMENTS) == 0) {
                let range = word * 8..(word * 8 + 8).min(now.len());
                sampling.bytes[range.clone()].copy_from_slice(&now[range]);
                *is_taken = true;
            }
        }
    }

    fn end_read(&mut self, reader: EndId, sampling: Sampling) {
        let at_ns = (self.now_ns + self.latency(reader.peer())).max(self.end(reader).reads_until);
        self.end_mut(reader).reads_until = at_ns;
        let notice = SimNotice::ReadDone(sampling.tag, Some(sampling.bytes));
        self.agenda.plan(at_ns, NetEvent::Notice { to: reader, notice });
    }
}

//! Lookups by READs that are no requests: one key after the other, where the reader's processor reaches the owner's memory.

use std::ops::Deref;
use std::time::Instant;

use longarm::QueuePair;

use crate::local::LookupError;
use crate::lookup::{FoundObject, LookupStep, ReadRequest};
use crate::verbs::ReadError;
use crate::verbs::lanes::{LaneSearch, SearchLanes};

/// Longer READs are left to requests.
const MOST_BYTES: usize = 1 << 20;

impl<Q, S, R, H> SearchLanes<Q, S, R, H>
where
    Q: Deref<Target = QueuePair>,
    S: LaneSearch<Root = R, Shared = H>,
    R: Copy,
{
    /// Looks keys up until a READ takes a request. Returns the number of those that are done.
    #[inline]
    pub(super) fn look_up_now<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        each: &mut impl FnMut(usize, Option<FoundObject<'_>>),
    ) -> Result<usize, ReadError> {
        for (number, key) in keys.iter().enumerate() {
            if !self.look_up_one(key.as_ref(), &mut |found| each(number, found))? {
                return Ok(number);
            }
        }
        Ok(keys.len())
    }

    /// Looks a key up. False: a READ takes a request, and nothing was told.
    #[inline]
    fn look_up_one(&mut self, key: &[u8], tell: &mut impl FnMut(Option<FoundObject<'_>>)) -> Result<bool, ReadError> {
        let mut busy_since: Option<Instant> = None;
        let reads = self.stats.reads;
        loop {
            let search = &mut self.lanes[0].search;
            if let Some(root) = self.root {
                search.learn(root);
            }
            let remembered = search.tag_of(key).and_then(|tag| self.cache.get(tag));
            let mut step = search.start(key, remembered, &mut self.shared);
            let known = loop {
                match step {
                    LookupStep::Read(wanted) => {
                        if !copy(&self.qp, self.key.at(wanted.at, wanted.len_bytes)?, wanted, &mut self.direct) {
                            self.stats.reads = reads;
                            return Ok(false);
                        }
                        self.stats.reads += 1;
                        step = search.feed(key, &self.direct[..wanted.len_bytes as usize], &mut self.shared);
                    }
                    LookupStep::Found(found) => {
                        tell(Some(found));
                        break Some(Some(found.location));
                    }
                    LookupStep::Absent => {
                        tell(None);
                        break Some(None);
                    }
                    LookupStep::OtherFormat => return Err(LookupError::OtherFormat.into()),
                    LookupStep::Busy => break None,
                }
            };
            if let Some(location) = known {
                self.stats.lookups += 1;
                self.root = search.root();
                match (search.tag_of(key), location) {
                    (Some(_), Some(location)) if remembered == Some(location) => {}
                    (Some(tag), Some(location)) => self.cache.put(tag, location),
                    (Some(tag), None) => self.cache.forget(tag),
                    (None, _) => {}
                }
                return Ok(true);
            }
            if busy_since.get_or_insert_with(Instant::now).elapsed() > self.options.patience {
                return Err(LookupError::Busy.into());
            }
            self.stats.busy += 1;
            std::thread::yield_now();
        }
    }
}

/// READs bytes to the front of `out`. False: that takes a request.
#[inline]
fn copy(qp: &QueuePair, from: longarm::RemoteKey, wanted: ReadRequest, out: &mut Vec<u8>) -> bool {
    let len_bytes = usize::try_from(wanted.len_bytes).unwrap_or(usize::MAX);
    if len_bytes > MOST_BYTES {
        return false;
    }
    if out.len() < len_bytes {
        out.resize(len_bytes, 0);
    }
    qp.read_now(&mut out[..len_bytes], &from)
}

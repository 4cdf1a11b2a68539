//! Lookups by READs that are no requests, where the reader's processor reaches the owner's memory.
//!
//! A multi-get takes several keys at a time through each step, so that the processor waits for several of them at once: places
//! in the location cache, then copies of objects, then checks.

use std::ops::Deref;
use std::time::Instant;

use longarm::{ObjectRead, QueuePair, RemoteKey};

use crate::local::LookupError;
use crate::lookup::{FoundObject, LookupStep, ReadRequest};
use crate::object::Location;
use crate::verbs::ReadError;
use crate::verbs::lanes::{LaneSearch, SearchLane, SearchLanes};

/// Longer READs are left to requests.
const MOST_BYTES: usize = 1 << 20;
/// Keys that go through each step together.
const TOGETHER: usize = 8;

/// The first READ of a lookup, and the place that the reader remembers.
type FirstRead = (ReadRequest, Option<Location>);

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
        let (width, mut done) = (self.lanes.len().min(TOGETHER), 0);
        while done < keys.len() {
            // Without the root record the first lookup fetches it for all.
            let width = if self.root.is_some() { width } else { 1 };
            let some = &keys[done..keys.len().min(done + width)];
            let mut first: [Option<FirstRead>; TOGETHER] = [None; TOGETHER];
            for (lane, key) in some.iter().enumerate() {
                first[lane] = Some(self.begin(lane, key.as_ref())?);
            }
            for (lane, read) in first.iter().flatten().enumerate() {
                if !self.copy(lane, read.0)? {
                    return Ok(done);
                }
            }
            for (lane, (key, read)) in some.iter().zip(first.iter().flatten()).enumerate() {
                if !self.finish(lane, key.as_ref(), *read, &mut |found| each(done + lane, found))? {
                    return Ok(done + lane);
                }
            }
            done += some.len();
        }
        Ok(done)
    }

    /// Begins the lookup of a key.
    #[inline]
    fn begin(&mut self, lane: usize, key: &[u8]) -> Result<FirstRead, ReadError> {
        let search = &mut self.lanes[lane].search;
        if let Some(root) = self.root {
            search.learn(root);
        }
        let remembered = search.tag_of(key).and_then(|tag| self.cache.get(tag));
        match search.start(key, remembered, &mut self.shared) {
            LookupStep::Read(wanted) => Ok((wanted, remembered)),
            LookupStep::OtherFormat => Err(LookupError::OtherFormat.into()),
            _ => Err(LookupError::Busy.into()),
        }
    }

    /// READs bytes to the front of a lane's memory. False: that takes a request.
    #[inline]
    fn copy(&mut self, lane: usize, wanted: ReadRequest) -> Result<bool, ReadError> {
        let from = self.key.at(wanted.at, wanted.len_bytes)?;
        let SearchLane { search, direct, .. } = &mut self.lanes[lane];
        let is_done = read_now(&self.qp, &from, search.object_lock(), direct);
        self.stats.reads += u64::from(is_done);
        Ok(is_done)
    }

    /// Feeds the bytes of the first READ, and goes on to the end. False: a READ takes a request, and nothing was told.
    #[inline]
    fn finish(
        &mut self,
        lane: usize,
        key: &[u8],
        (_, mut remembered): FirstRead,
        tell: &mut impl FnMut(Option<FoundObject<'_>>),
    ) -> Result<bool, ReadError> {
        let mut busy_since: Option<Instant> = None;
        loop {
            let place = &mut self.lanes[lane];
            let known = match place.search.feed(key, &place.direct, &mut self.shared) {
                LookupStep::Found(found) => {
                    tell(Some(found));
                    Some(found.location)
                }
                LookupStep::Absent => {
                    tell(None);
                    None
                }
                LookupStep::OtherFormat => return Err(LookupError::OtherFormat.into()),
                LookupStep::Read(wanted) => {
                    if !self.copy(lane, wanted)? {
                        return Ok(false);
                    }
                    continue;
                }
                LookupStep::Busy => {
                    if busy_since.get_or_insert_with(Instant::now).elapsed() > self.options.patience {
                        return Err(LookupError::Busy.into());
                    }
                    self.stats.busy += 1;
                    std::thread::yield_now();
                    let wanted;
                    (wanted, remembered) = self.begin(lane, key)?;
                    if !self.copy(lane, wanted)? {
                        return Ok(false);
                    }
                    continue;
                }
            };
            self.stats.lookups += 1;
            self.root = place.search.root();
            if known.is_none() || known != remembered {
                match (place.search.tag_of(key), known) {
                    (Some(tag), Some(location)) => self.cache.put(tag, location),
                    (Some(tag), None) => self.cache.forget(tag),
                    (None, _) => {}
                }
            }
            return Ok(true);
        }
    }
}

/// Of an object that is busy, its first word is left in `out`.
#[inline]
fn read_now(qp: &QueuePair, from: &RemoteKey, lock: Option<u64>, out: &mut Vec<u8>) -> bool {
    let len_bytes = usize::try_from(from.len_bytes()).unwrap_or(usize::MAX);
    if len_bytes > MOST_BYTES {
        return false;
    }
    out.resize(len_bytes, 0);
    let Some(lock) = lock else { return qp.read_now(out, from) };
    match qp.read_object_now(out, from, lock) {
        Some(ObjectRead::Whole(())) => true,
        Some(ObjectRead::Busy(())) => {
            out.truncate(8);
            true
        }
        None => false,
    }
}

//! Readers that travel through a timeline.

use fastrand::Rng;

use crate::lookup::LookupStep;
use crate::object::{Location, ReadGrain};
use crate::sim::history::LookupRecord;
use crate::sim::plant::Plant;
use crate::sim::reads::TravelReads;
use crate::sim::scans::ScanRecord;
use crate::sim::searches::SimSearch;
use crate::sim::story::{Operation, Story};
use crate::sim::timeline::Timeline;
use crate::tree::KeyRange;

/// A reader: a search, and the places that it remembers.
pub(crate) struct SimReader<'a, S> {
    search: S,
    story: &'a Story,
    reads: TravelReads<'a>,
    remembered: Vec<Option<Location>>,
    buffer: Vec<u8>,
    pub(crate) busy: u64,
}

/// The answers of readers.
#[derive(Default)]
pub(crate) struct ReaderRecords {
    pub(crate) lookups: Vec<LookupRecord>,
    pub(crate) scans: Vec<ScanRecord>,
}

impl<'a, S: SimSearch> SimReader<'a, S> {
    pub(crate) fn new(
        story: &'a Story,
        timeline: &'a Timeline,
        plant: Option<Plant>,
        mut random: Rng,
    ) -> SimReader<'a, S> {
        // A check that needs whole lines gets them; the others get words, and sometimes lines.
        let gets_lines = S::NEEDS == ReadGrain::Line || random.u8(..4) == 0;
        let haste = [1, 5, 30, 200, 1000][random.usize(..5)];
        SimReader {
            search: S::create(story.memory_bytes, &mut random),
            story,
            reads: TravelReads {
                timeline,
                memory_bytes: story.memory_bytes,
                grain: if gets_lines { ReadGrain::Line } else { ReadGrain::Word },
                plant,
                random,
                now: 0,
                parts_nodes: S::HAS_SCANS,
                haste,
            },
            remembered: vec![None; story.keys.len()],
            buffer: Vec::new(),
            busy: 0,
        }
    }

    /// Lookups and scans until the end of the timeline.
    pub(crate) fn travel(&mut self, records: &mut ReaderRecords) -> Result<(), String> {
        while self.reads.now < self.reads.timeline.end() {
            if S::HAS_SCANS && self.reads.random.u8(..16) == 0 {
                self.scan_some(records)?;
            }
            let key = self.reads.random.usize(..self.story.keys.len());
            let (begin, mut answer) = (self.reads.now, self.look_up(key)?);
            if answer.is_none() && begin == self.reads.now {
                return Err(format!(
                    "nothing was stored during a lookup of key {key} at {begin}, and it had no answer"
                ));
            }
            if let Some(answer) = answer.take() {
                records.lookups.push(LookupRecord { key, begin, end: self.reads.now, answer });
            }
            self.reads.pass(self.reads.haste * 4);
        }
        Ok(())
    }

    /// Scans some keys. Each item is also an answer of a lookup of its key.
    fn scan_some(&mut self, records: &mut ReaderRecords) -> Result<(), String> {
        let random = &mut self.reads.random;
        let keys = self.story.keys.len();
        let first = random.usize(..keys);
        let (last, limit) = (random.usize(first..keys), random.usize(1..keys * 2));
        let scan = self.scan(first, last, limit)?;
        for (key, value) in &scan.items {
            let (key, answer) = (*key, Some(value.clone()));
            records.lookups.push(LookupRecord { key, begin: scan.begin, end: scan.end, answer });
        }
        records.scans.push(scan);
        Ok(())
    }

    /// Scans the keys between two numbers.
    fn scan(&mut self, first: usize, last: usize, limit: usize) -> Result<ScanRecord, String> {
        let (begin, story) = (self.reads.now, self.story);
        let range = KeyRange::of(story.keys[first].as_slice()..=story.keys[last].as_slice());
        let (mut items, mut order) = (Vec::new(), self.reads.random.fork());
        let mut strangers = 0;
        let mut read = |wanted, bytes: &mut Vec<u8>| self.reads.read(wanted, begin, bytes);
        let mut each = |item: crate::tree::ScanItem<'_>| match story.keys.binary_search_by(|key| key[..].cmp(item.key))
        {
            Ok(key) => items.push((key, item.object.value.to_vec())),
            Err(_) => strangers += 1,
        };
        let is_whole = self.search.scan(&range, limit, &mut order, &mut read, &mut each)?;
        if strangers > 0 {
            return Err(format!("a scan found {strangers} keys that nobody has put"));
        }
        self.busy += u64::from(!is_whole);
        let end = self.reads.now;
        if !is_whole && begin == end {
            let stands = story.operations.iter().any(|operation| operation.begin < begin && begin < operation.end);
            if !stands {
                return Err(format!("nothing was stored during a scan at {begin}, and it had no answer"));
            }
        }
        Ok(ScanRecord { begin, end, keys: first..=last, limit, items, is_whole })
    }

    /// Lookups at one time, at which the writer stands still. Keys that it is not working on must be found.
    pub(crate) fn stand_still(&mut self, time: usize, scans: &mut Vec<ScanRecord>) -> Result<(), String> {
        let operations = &self.story.operations;
        let at_work = |operation: &&Operation| operation.begin < time && time < operation.end;
        let first = operations.iter().filter(at_work).map(|operation| operation.begin).min();
        // A reader that has read the root record before. It could not while the writer stands in the middle of that. Trees
        // never change theirs.
        (self.reads.now, self.reads.haste) = (first.unwrap_or(time), 0);
        if !S::HAS_SCANS || self.reads.random.bool() {
            self.look_up(0)?;
        }
        self.reads.now = time;
        for key in 0..self.story.keys.len() {
            let done =
                self.story.operations.iter().rev().find(|operation| operation.key == key && operation.end <= time);
            let present = done.and_then(|operation| operation.value.as_deref());
            let answer = self.look_up(key)?;
            match (answer, present) {
                _ if operations.iter().filter(at_work).any(|operation| operation.key == key) => {}
                (Some(Some(value)), Some(present)) if value == present => {}
                (Some(None), None) => {}
                // Slots may be moving then, and the reader cannot tell whether it has overlooked one.
                (None, None) => {}
                (None, Some(_)) if S::MAY_HIDE => {}
                (answer, _) => {
                    let kind = answer.map(|answer| answer.is_some());
                    let present = present.map(<[u8]>::len);
                    return Err(format!(
                        "the writer stands at {time}; key {key} has {present:?} bytes: found {kind:?}"
                    ));
                }
            }
        }
        if S::HAS_SCANS {
            scans.push(self.scan(0, self.story.keys.len() - 1, usize::MAX)?);
        }
        Ok(())
    }

    /// The answer of one lookup; `None` if writers were in between each time.
    fn look_up(&mut self, key: usize) -> Result<Option<Option<Vec<u8>>>, String> {
        let (story, begin) = (self.story, self.reads.now);
        let name = &story.keys[key];
        let remembered = self.remembered[key].filter(|_| self.reads.random.u8(..8) > 0);
        let mut wanted = match self.search.start(name, remembered) {
            LookupStep::Read(wanted) => wanted,
            other => return Err(format!("a lookup begins with {other:?}")),
        };
        loop {
            let mut bytes = std::mem::take(&mut self.buffer);
            match self.search.object_lock() {
                Some(lock) => self.reads.read_object(wanted, begin, lock, &mut bytes)?,
                None => self.reads.read(wanted, begin, &mut bytes)?,
            }
            let (mut ended, mut location) = (None, None);
            match self.search.feed(name, &bytes) {
                LookupStep::Read(next) => wanted = next,
                LookupStep::Found(object) => {
                    location = Some(object.location);
                    ended = Some(Some(Some(object.value.to_vec())));
                }
                LookupStep::Absent => ended = Some(Some(None)),
                LookupStep::Busy => ended = Some(None),
                LookupStep::OtherFormat => return Err("the table has another format".into()),
            }
            self.buffer = bytes;
            if let Some(answer) = ended {
                self.remembered[key] = location;
                self.busy += u64::from(answer.is_none());
                return Ok(answer);
            }
        }
    }
}

//! Readers that travel through a timeline.

use fastrand::Rng;

use crate::layout::TableLayout;
use crate::lookup::{KeyLookup, LookupStep, ReadRequest};
use crate::object::{Location, ReadGrain, TornCheck};
use crate::sim::history::LookupRecord;
use crate::sim::plant::Plant;
use crate::sim::story::{Operation, Story};
use crate::sim::timeline::Timeline;

/// A reader: a lookup, and the places that it remembers.
pub(crate) struct SimReader<'a, L: TableLayout, C> {
    lookup: KeyLookup<L, C>,
    story: &'a Story,
    timeline: &'a Timeline,
    remembered: Vec<Option<Location>>,
    grain: ReadGrain,
    plant: Option<Plant>,
    random: Rng,
    now: usize,
    /// Stores that usually happen during one READ.
    haste: usize,
    buffer: Vec<u8>,
    pub(crate) busy: u64,
}

impl<'a, L: TableLayout, C: TornCheck> SimReader<'a, L, C> {
    pub(crate) fn new(
        story: &'a Story,
        timeline: &'a Timeline,
        plant: Option<Plant>,
        mut random: Rng,
    ) -> SimReader<'a, L, C> {
        // A check that needs whole lines gets them; the others get words, and sometimes lines.
        let gets_lines = C::NEEDS == ReadGrain::Line || random.u8(..4) == 0;
        SimReader {
            lookup: KeyLookup::new(story.memory_bytes),
            story,
            timeline,
            remembered: vec![None; story.keys.len()],
            grain: if gets_lines { ReadGrain::Line } else { ReadGrain::Word },
            plant,
            now: 0,
            haste: [1, 5, 30, 200, 1000][random.usize(..5)],
            random,
            buffer: Vec::new(),
            busy: 0,
        }
    }

    /// Lookups until the end of the timeline.
    pub(crate) fn travel(&mut self, records: &mut Vec<LookupRecord>) -> Result<(), String> {
        while self.now < self.timeline.end() {
            let key = self.random.usize(..self.story.keys.len());
            let (begin, mut answer) = (self.now, self.look_up(key)?);
            if answer.is_none() && begin == self.now {
                return Err(format!(
                    "nothing was stored during a lookup of key {key} at {begin}, and it had no answer"
                ));
            }
            if let Some(answer) = answer.take() {
                records.push(LookupRecord { key, begin, end: self.now, answer });
            }
            self.pass(self.haste * 4);
        }
        Ok(())
    }

    /// Lookups at one time, at which the writer stands still. Keys that it is not working on must be found.
    pub(crate) fn stand_still(&mut self, time: usize) -> Result<(), String> {
        let operations = &self.story.operations;
        let at_work = |operation: &&Operation| operation.begin < time && time < operation.end;
        let first = operations.iter().filter(at_work).map(|operation| operation.begin).min();
        // A reader that has read the root record before. It could not while the writer stands in the middle of that.
        (self.now, self.haste) = (first.unwrap_or(time), 0);
        self.look_up(0)?;
        self.now = time;
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
                // The words of one entry are of two moments for as long as the writer stands there.
                (None, Some(_)) if L::NAME == "cuckoo" => {}
                (answer, _) => {
                    let kind = answer.map(|answer| answer.is_some());
                    let present = present.map(<[u8]>::len);
                    return Err(format!(
                        "the writer stands at {time}; key {key} has {present:?} bytes: found {kind:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// The answer of one lookup; `None` if writers were in between each time.
    fn look_up(&mut self, key: usize) -> Result<Option<Option<Vec<u8>>>, String> {
        let (story, begin) = (self.story, self.now);
        let name = &story.keys[key];
        let remembered = self.remembered[key].filter(|_| self.random.u8(..8) > 0);
        let mut wanted = match self.lookup.start(name, remembered) {
            LookupStep::Read(wanted) => wanted,
            other => return Err(format!("a lookup begins with {other:?}")),
        };
        loop {
            let mut bytes = std::mem::take(&mut self.buffer);
            self.read(wanted, begin, &mut bytes)?;
            let (mut ended, mut location) = (None, None);
            match self.lookup.feed(name, &bytes) {
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

    /// One READ, which takes some time. Each of its pieces is copied at a time of its own.
    fn read(&mut self, wanted: ReadRequest, lookup_begin: usize, bytes: &mut Vec<u8>) -> Result<(), String> {
        let ReadRequest { at, len_bytes } = wanted;
        if at.checked_add(len_bytes).is_none_or(|end| end > self.story.memory_bytes) {
            // The device refuses it, and the connection fails: no reader may ask for it.
            return Err(format!("a READ of {len_bytes} bytes at {at}, in {} bytes", self.story.memory_bytes));
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

    fn pass(&mut self, stores: usize) {
        let stores = if stores == 0 || self.random.u8(..3) == 0 { 0 } else { self.random.usize(..=stores * 2) };
        self.now = (self.now + stores).min(self.timeline.end());
    }
}

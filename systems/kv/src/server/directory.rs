//! The server's private notes about each key: expiry, and the time of the last use.
//!
//! Notes are in buckets by the upper bits of the key's tag. So the order of buckets is the order of tags, however many
//! buckets there are: a SCAN goes through tags, and growth between two of its steps changes nothing.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Notes that a bucket has on average when the directory grows.
const FULL: usize = 6;
/// Bytes of memory for a note, beside its key: the note, its share of a bucket and of the allocator.
const NOTE_BYTES: u64 = 72;

/// The tag by which the directory, and a client's reports, know a key.
pub(crate) fn tag_of(seed: u64, key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, seed)
}

/// The notes about one key.
#[derive(Clone, Debug)]
pub(crate) struct KeyNote {
    pub(crate) tag: u64,
    pub(crate) key: Box<[u8]>,
    /// In the server's clock; zero for never.
    pub(crate) expires_ns: u64,
    /// When it was used last, in ticks of the caller.
    pub(crate) used: u32,
}

/// Notes about all keys of a table.
pub(crate) struct KeyDirectory {
    seed: u64,
    buckets: Vec<Vec<KeyNote>>,
    keys: usize,
    key_bytes: u64,
}

impl KeyDirectory {
    pub(crate) fn new(seed: u64) -> KeyDirectory {
        KeyDirectory { seed, buckets: vec![Vec::new(); 64], keys: 0, key_bytes: 0 }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn len(&self) -> usize {
        self.keys
    }

    /// Bytes of private memory, about.
    pub(crate) fn bytes(&self) -> u64 {
        self.key_bytes + self.keys as u64 * NOTE_BYTES
    }

    pub(crate) fn find(&mut self, key: &[u8]) -> Option<&mut KeyNote> {
        let tag = tag_of(self.seed, key);
        let bucket = self.bucket(tag);
        self.buckets[bucket].iter_mut().find(|note| note.tag == tag && *note.key == *key)
    }

    /// Reads the places of notes with these tags, all of one kind before the next, so that the processor fetches them together.
    /// Returns bits of no meaning, for which the reads happen.
    pub(crate) fn look_ahead(&self, tags: &[u64]) -> usize {
        let buckets = |bits, tag: &u64| bits ^ self.buckets[self.bucket(*tag)].len();
        let bits = tags.iter().fold(0, buckets);
        tags.iter().fold(bits, |bits, tag| {
            let note = self.buckets[self.bucket(*tag)].iter().find(|note| note.tag == *tag);
            bits ^ usize::from(note.and_then(|note| note.key.first()).copied().unwrap_or_default())
        })
    }

    /// A key with that tag. Several may have it; this is one of them.
    pub(crate) fn find_tag(&mut self, tag: u64) -> Option<&mut KeyNote> {
        let bucket = self.bucket(tag);
        self.buckets[bucket].iter_mut().find(|note| note.tag == tag)
    }

    /// A key with that tag whose value has expired.
    pub(crate) fn find_expired(&self, tag: u64, now_ns: u64) -> Option<&KeyNote> {
        let is_due = |note: &&KeyNote| note.tag == tag && note.expires_ns != 0 && note.expires_ns <= now_ns;
        self.buckets[self.bucket(tag)].iter().find(is_due)
    }

    /// Adds notes about a key that has none, and returns its tag.
    pub(crate) fn add(&mut self, key: &[u8], expires_ns: u64, used: u32) -> u64 {
        if self.keys >= self.buckets.len() * FULL {
            self.grow();
        }
        let tag = tag_of(self.seed, key);
        let bucket = self.bucket(tag);
        self.buckets[bucket].push(KeyNote { tag, key: key.into(), expires_ns, used });
        self.keys += 1;
        self.key_bytes += key.len() as u64;
        tag
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<KeyNote> {
        let tag = tag_of(self.seed, key);
        let bucket = self.bucket(tag);
        let at = self.buckets[bucket].iter().position(|note| note.tag == tag && *note.key == *key)?;
        self.keys -= 1;
        self.key_bytes -= key.len() as u64;
        Some(self.buckets[bucket].swap_remove(at))
    }

    /// Calls `each` with notes from `cursor` on, whole buckets of them, until it has told `count` of them or more, or
    /// `each` has returned false. Returns the cursor of the rest; zero at the end.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut each: impl FnMut(&KeyNote) -> bool) -> u64 {
        let (mut told, mut goes_on) = (0, true);
        for bucket in self.bucket(cursor)..self.buckets.len() {
            if told >= count || !goes_on {
                return self.first_tag(bucket);
            }
            for note in self.buckets[bucket].iter().filter(|note| note.tag >= cursor) {
                told += 1;
                goes_on &= each(note);
            }
        }
        0
    }

    /// The least recently used of some keys that are chosen at random; `None` if there is no key. (Redis samples so, too:
    /// its documentation, "Key eviction".)
    pub(crate) fn sample_oldest(&self, now: u32, samples: usize, random: &mut fastrand::Rng) -> Option<&KeyNote> {
        let (mut oldest, mut seen): (Option<&KeyNote>, usize) = (None, 0);
        let start = random.usize(..self.buckets.len());
        for step in 0..self.buckets.len() {
            for note in &self.buckets[(start + step) % self.buckets.len()] {
                seen += 1;
                // Ticks wrap around.
                if oldest.is_none_or(|other| now.wrapping_sub(note.used) > now.wrapping_sub(other.used)) {
                    oldest = Some(note);
                }
            }
            if seen >= samples {
                break;
            }
        }
        oldest
    }

    fn bucket(&self, tag: u64) -> usize {
        (tag >> (64 - self.buckets.len().ilog2())) as usize
    }

    fn first_tag(&self, bucket: usize) -> u64 {
        (bucket as u64) << (64 - self.buckets.len().ilog2())
    }

    fn grow(&mut self) {
        let twice = vec![Vec::new(); self.buckets.len() * 2];
        let old = std::mem::replace(&mut self.buckets, twice);
        for note in old.into_iter().flatten() {
            let bucket = self.bucket(note.tag);
            self.buckets[bucket].push(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(number: u32) -> Vec<u8> {
        format!("key {number}").into_bytes()
    }

    #[test]
    fn notes_are_found_until_they_are_removed() {
        let mut directory = KeyDirectory::new(5);
        let tags: Vec<u64> = (0..5000).map(|number| directory.add(&key(number), u64::from(number), number)).collect();
        assert_eq!(directory.len(), 5000);
        for number in (0..5000).step_by(2) {
            assert_eq!(directory.find_tag(tags[number as usize]).unwrap().used, number);
            assert_eq!(directory.remove(&key(number)).unwrap().expires_ns, u64::from(number));
            assert!(directory.remove(&key(number)).is_none() && directory.find(&key(number)).is_none());
        }
        assert!((1..5000).step_by(2).all(|number| directory.find(&key(number)).is_some()));
        assert!(directory.find_expired(tags[7], 6).is_none() && directory.find_expired(tags[7], 7).is_some());
        (1..5000).step_by(2).for_each(|number| drop(directory.remove(&key(number))));
        assert_eq!((directory.len(), directory.bytes()), (0, 0));
        assert!(directory.sample_oldest(0, 5, &mut fastrand::Rng::with_seed(1)).is_none());
    }

    #[test]
    fn a_scan_tells_each_key_once_though_the_directory_grows() {
        let mut directory = KeyDirectory::new(9);
        for number in 0..300 {
            directory.add(&key(number), 0, 0);
        }
        let (mut told, mut cursor, mut guests) = (HashSet::new(), 0, 1000);
        loop {
            cursor = directory.scan(cursor, 10, |note| {
                assert!(told.insert(note.key.clone()), "{:?} twice", note.key);
                true
            });
            if cursor == 0 {
                break;
            }
            // Others come and go meanwhile.
            for number in 0..40 {
                directory.add(&key(guests + number), 0, 0);
            }
            directory.remove(&key(guests));
            guests += 40;
        }
        assert!((0..300).all(|number| told.contains(&*key(number))));
        assert!(directory.len() > 1000, "it grew");
    }

    #[test]
    fn samples_prefer_keys_that_nobody_used() {
        let (mut directory, mut random) = (KeyDirectory::new(1), fastrand::Rng::with_seed(3));
        // The clock has wrapped around since the old ones were used.
        let now = 50_u32;
        for number in 0..1000 {
            let used = if number < 500 { now } else { now.wrapping_sub(1000) };
            directory.add(&key(number), 0, used);
        }
        let old = (0..200).filter(|_| directory.sample_oldest(now, 5, &mut random).unwrap().used != now).count();
        assert!(old > 180, "{old} of 200");
    }
}

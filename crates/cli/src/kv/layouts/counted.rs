//! READs of real tables, which lookups in this process count.

use remote::{
    Cluster, Crc64, Cuckoo, Found, Hopscotch, KeyLookup, LocalReads, LocationCache, LookupCounts, OwnerOptions,
    PlainMemory, TableLayout, TableOwner, WordMemory,
};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::kv::bench::{Random, Zipf};

/// Percent of the slots that are full.
const FULL: [u64; 5] = [25, 50, 75, 90, 95];
/// Percent of the keys whose places the cache has room for.
const CACHED: [u64; 8] = [0, 1, 2, 5, 10, 20, 50, 100];
/// Percent of the slots that are full while caches are measured, as in a table that has just grown twice.
const CACHE_FULL: u64 = 75;
/// The most bytes of an object with its block, and of a table's other parts.
const OBJECT_BYTES: u64 = 160;

/// The quantity below the READs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CountedOver {
    /// READs of slots for a present key, by the part of the slots that is full. Keys are uniform.
    Occupancy,
    /// READs of all kinds, by the part of the keys whose places the client remembers. Keys are zipfian, 0.99.
    Cache,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CountedReads {
    pub(super) over: CountedOver,
    pub(super) layout: String,
    pub(super) percent: u64,
    /// The mean of a lookup.
    pub(super) reads: f64,
    /// The figure of DrTM-KV's paper (SOSP 2015, table 3), if it has one.
    pub(super) published: Option<f64>,
}

/// All figures.
pub(super) fn all(slots: u64, tables: u64) -> Result<Vec<CountedReads>, Error> {
    let mut lines = Vec::new();
    of_layout::<Cluster>(slots, tables, &[(50, 1.008), (75, 1.052), (90, 1.100)], &mut lines)?;
    of_layout::<Hopscotch>(slots, tables, &[(50, 1.000), (75, 1.011), (90, 1.044)], &mut lines)?;
    of_layout::<Cuckoo>(slots, tables, &[(50, 1.348), (75, 1.652), (90, 1.956)], &mut lines)?;
    Ok(lines)
}

fn of_layout<L: TableLayout>(
    slots: u64,
    tables: u64,
    published: &[(u64, f64)],
    lines: &mut Vec<CountedReads>,
) -> Result<(), Error> {
    let mean = |count: &dyn Fn(u64) -> Option<f64>| {
        let all: Option<Vec<f64>> = (1..=tables).map(count).collect();
        all.map(|all| all.iter().sum::<f64>() / all.len() as f64)
    };
    for percent in FULL {
        // Tables that may not grow take no more keys at some point.
        let count = |salt| Some(CountedTable::<L>::new(slots, slots * percent / 100, salt)?.uniform());
        let Some(reads) = mean(&count) else { continue };
        let published = published.iter().find(|(at, _)| *at == percent).map(|(_, reads)| *reads);
        lines.push(CountedReads { over: CountedOver::Occupancy, layout: L::NAME.into(), percent, reads, published });
    }
    for percent in CACHED {
        let count = |salt| Some(CountedTable::<L>::new(slots, slots * CACHE_FULL / 100, salt)?.zipfian(percent));
        let reads = mean(&count).ok_or_else(|| Error::Usage(format!("{} takes no {CACHE_FULL} %", L::NAME)))?;
        let over = CountedOver::Cache;
        lines.push(CountedReads { over, layout: L::NAME.into(), percent, reads, published: None });
    }
    Ok(())
}

/// A table with keys, and one lookup after the other in it.
struct CountedTable<L: TableLayout> {
    memory: PlainMemory,
    keys: u64,
    lookup: KeyLookup<L, Crc64>,
}

impl<L: TableLayout> CountedTable<L> {
    /// `None` if so many keys do not fit.
    fn new(slots: u64, keys: u64, salt: u64) -> Option<CountedTable<L>> {
        let memory = PlainMemory::new(slots * OBJECT_BYTES + (1 << 20));
        let options = OwnerOptions { keys: slots, may_grow: false, salt, ..OwnerOptions::default() };
        let mut table = TableOwner::<_, L, Crc64>::create(&memory, options).ok()?;
        for key in 0..keys {
            table.put(&key.to_le_bytes(), b"v").ok()?;
        }
        drop(table);
        let lookup = KeyLookup::new(memory.len_bytes());
        Some(CountedTable { memory, keys, lookup })
    }

    /// READs of slots per lookup of each key.
    fn uniform(&mut self) -> f64 {
        let (mut reads, mut slots) = (LocalReads::new(&self.memory), 0);
        for key in 0..self.keys {
            let _ = look_up(&mut reads, &mut self.lookup, key, None);
            slots += u64::from(self.lookup.counts().index);
        }
        slots as f64 / self.keys as f64
    }

    /// READs of all kinds per lookup with a cache for so many percent of the keys.
    fn zipfian(&mut self, percent: u64) -> f64 {
        let (zipf, mut random) = (Zipf::new(self.keys), Random(3));
        let mut cache = LocationCache::new((self.keys * percent / 100) as usize);
        let (mut reads, mut all, lookups) = (LocalReads::new(&self.memory), 0, 8 * self.keys);
        for number in 0..2 * lookups {
            let key = zipf.rank(random.fraction());
            let remembered = self.lookup.tag_of(&key.to_le_bytes()).and_then(|tag| cache.get(tag));
            let is_found = look_up(&mut reads, &mut self.lookup, key, remembered);
            if let (true, Some(tag), Some(place)) = (is_found, self.lookup.tag_of(&key.to_le_bytes()), reads.location())
            {
                cache.put(tag, place);
            }
            // The first half fills the cache.
            let LookupCounts { root, index, object } = self.lookup.counts();
            all += if number < lookups { 0 } else { u64::from(root + index + object) };
        }
        all as f64 / lookups as f64
    }
}

fn look_up<L: TableLayout>(
    reads: &mut LocalReads<&PlainMemory>,
    lookup: &mut KeyLookup<L, Crc64>,
    key: u64,
    remembered: Option<remote::Location>,
) -> bool {
    matches!(reads.run(lookup, &key.to_le_bytes(), remembered), Ok(Found::Value(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_need_the_published_reads_and_a_cache_saves_some() {
        let lines = all(1 << 14, 2).unwrap();
        let of = |over| lines.iter().filter(move |line| line.over == over);
        for line in of(CountedOver::Occupancy) {
            let Some(published) = line.published else { continue };
            // Our insertions into cuckoo tables leave more keys at their first place.
            let tolerance = if line.layout == Cuckoo::NAME { 0.16 } else { 0.01 };
            assert!((line.reads - published).abs() < tolerance, "{line:?}");
        }
        assert_eq!(of(CountedOver::Occupancy).filter(|line| line.published.is_some()).count(), 9);
        let cached: Vec<&CountedReads> = of(CountedOver::Cache).filter(|line| line.layout == Cluster::NAME).collect();
        assert!(cached.windows(2).all(|pair| pair[1].reads < pair[0].reads), "{cached:?}");
        assert!(cached.iter().any(|line| line.percent == 20 && line.reads <= 1.3), "{cached:?}");
    }
}

//! READs per lookup of a reader that remembers locations.

use longarm_remote::{
    Cluster, Crc64, Found, KeyLookup, LocalReads, LocationCache, OwnerOptions, PlainMemory, TableOwner, WordMemory,
};

const KEYS: usize = 50_000;
const LOOKUPS: usize = 400_000;

/// Ranks with Zipf's distribution, as YCSB has it: rank r with a weight of r^-0.99.
struct ZipfRanks(Vec<f64>);

impl ZipfRanks {
    fn new(count: usize) -> ZipfRanks {
        let mut sum = 0.0;
        ZipfRanks(
            (1..=count)
                .map(|rank| {
                    sum += (rank as f64).powf(-0.99);
                    sum
                })
                .collect(),
        )
    }

    fn draw(&self, random: &mut fastrand::Rng) -> usize {
        let wanted = random.f64() * self.0.last().unwrap();
        self.0.partition_point(|sum| *sum < wanted)
    }
}

/// All READs per lookup, for a cache of so many locations.
fn reads_per_lookup(memory: &PlainMemory, locations: usize) -> f64 {
    let (mut reads, mut lookup) = (LocalReads::new(memory), KeyLookup::<Cluster, Crc64>::new(memory.len_bytes()));
    let (mut cache, zipf) = (LocationCache::new(locations), ZipfRanks::new(KEYS));
    let (mut random, mut all) = (fastrand::Rng::with_seed(3), 0);
    for number in 0..2 * LOOKUPS {
        let key = (zipf.draw(&mut random) as u64).to_le_bytes();
        let remembered = lookup.tag_of(&key).and_then(|tag| cache.get(tag));
        assert!(matches!(reads.run(&mut lookup, &key, remembered), Ok(Found::Value(_))));
        cache.put(lookup.tag_of(&key).unwrap(), reads.location().unwrap());
        // The first half fills the cache.
        let counts = lookup.counts();
        all += if number < LOOKUPS { 0 } else { counts.root + counts.index + counts.object };
    }
    f64::from(all) / LOOKUPS as f64
}

#[test]
fn a_cache_of_a_fifth_of_the_keys_saves_most_reads_of_slots() {
    let memory = PlainMemory::new(32 << 20);
    let options = OwnerOptions { keys: KEYS as u64 * 4 / 3, salt: 1, ..OwnerOptions::default() };
    let mut table = TableOwner::<_, Cluster, Crc64>::create(&memory, options).unwrap();
    for key in 0..KEYS as u64 {
        table.put(&key.to_le_bytes(), b"value").unwrap();
    }
    let mut before = 3.0;
    for percent in [0, 1, 5, 20, 100] {
        let reads = reads_per_lookup(&memory, KEYS * percent / 100);
        println!("cache of {percent} % of the keys: {reads:.3} READs per lookup");
        assert!(reads < before, "a larger cache saves READs");
        assert!(percent < 20 || reads < 1.3);
        before = reads;
    }
}

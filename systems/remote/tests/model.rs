//! Tables beside a map of the standard library: random operations, each layout, each check.

use std::collections::HashMap;

use longarm_remote::{
    AllocatorOptions, Cluster, Crc64, Cuckoo, Found, Hopscotch, KeyLookup, LineVersions, LocalReads, Location,
    LocationCache, MAX_KEY_BYTES, OwnerError, OwnerOptions, PlainMemory, PutOutcome, TableLayout, TableOwner,
    TornCheck, WordMemory,
};

/// A table, its model, and a reader that remembers locations, right or wrong.
struct ModelRun<'m, L: TableLayout, C> {
    table: TableOwner<&'m PlainMemory, L, C>,
    model: HashMap<Vec<u8>, Vec<u8>>,
    reads: LocalReads<&'m PlainMemory>,
    lookup: KeyLookup<L, C>,
    cache: LocationCache,
    random: fastrand::Rng,
}

impl<L: TableLayout, C: TornCheck> ModelRun<'_, L, C> {
    fn key(&mut self) -> Vec<u8> {
        let number = self.random.u16(..600);
        let longest = if number % 100 == 7 { MAX_KEY_BYTES } else { 3 + usize::from(number) % 120 };
        let mut key = vec![b'k'; longest];
        key[..2].copy_from_slice(&number.to_le_bytes());
        key
    }

    fn operate(&mut self, time: u64) {
        self.table.set_now(time * 1_000_000);
        let key = self.key();
        match self.random.u8(..10) {
            0..3 => assert_eq!(self.table.delete(&key), Ok(self.model.remove(&key).is_some())),
            3..7 => {
                let longest = [10, 100, 5000, 100_000][self.random.usize(..4)];
                let value = vec![self.random.u8(..); self.random.usize(..longest)];
                let put = self.table.put(&key, &value).unwrap();
                let before = self.model.insert(key, value);
                assert_eq!(matches!(put, PutOutcome::Updated(_)), before.is_some());
            }
            _ => self.look_up(&key),
        }
        assert_eq!(self.table.len(), self.model.len() as u64);
    }

    fn look_up(&mut self, key: &[u8]) {
        let wanted = self.model.get(key).cloned();
        let mut bytes = Vec::new();
        let header = self.table.get(key, &mut bytes).unwrap();
        assert_eq!(header.map(|_| bytes), wanted);
        let from = self.random.u64(..20);
        let mut part = b"before".to_vec();
        let found = self.table.get_part(key, from, 7, &mut part).unwrap();
        assert_eq!(found, header.zip(wanted.as_ref()).map(|(header, value)| (header, value.len() as u64)));
        let whole = wanted.as_deref().unwrap_or_default();
        let tail = &whole[(from as usize).min(whole.len())..];
        assert_eq!(part[6..], tail[..tail.len().min(7)]);
        let tag = self.lookup.tag_of(key);
        // Some remembered places are those of other keys.
        let remembered: Option<Location> =
            tag.and_then(|tag| self.cache.get(tag ^ u64::from(self.random.u8(..20) == 0)));
        let found = self.reads.run(&mut self.lookup, key, remembered).unwrap();
        assert_eq!(found, wanted.map_or(Found::Absent, Found::Value));
        if let (Found::Value(_), Some(tag), Some(location)) = (found, tag, self.reads.location()) {
            self.cache.put(tag, location);
        }
    }
}

fn run<L: TableLayout, C: TornCheck>(seed: u64) {
    let memory = PlainMemory::new(64 << 20);
    let options = OwnerOptions { keys: 16, salt: seed, ..OwnerOptions::default() };
    let mut run = ModelRun {
        table: TableOwner::<_, L, C>::create(&memory, options).unwrap(),
        model: HashMap::new(),
        reads: LocalReads::new(&memory),
        lookup: KeyLookup::new(memory.len_bytes()),
        cache: LocationCache::new(200),
        random: fastrand::Rng::with_seed(seed),
    };
    (0..6000).for_each(|time| run.operate(time));
    let mut keys: Vec<Vec<u8>> = run.model.keys().cloned().collect();
    let mut told = Vec::new();
    run.table.each_key(|key, _| told.push(key.to_vec())).unwrap();
    keys.sort();
    told.sort();
    assert!(told == keys, "{} keys of {}", told.len(), keys.len());
    keys.iter().for_each(|key| run.look_up(key));
    for key in keys {
        assert_eq!(run.table.delete(&key), Ok(true));
    }
    run.table.set_now(1 << 60);
    assert!(run.table.is_empty() && run.table.blocks().waiting_bytes() == 0);
    // The slots are all that is left.
    let area_bytes = L::area_bytes(&L::shape(4 * 600));
    assert!(run.table.blocks().used_bytes() <= 2 * area_bytes, "{} bytes", run.table.blocks().used_bytes());
}

#[test]
fn cluster() {
    (0..3).for_each(run::<Cluster, Crc64>);
    run::<Cluster, LineVersions>(9);
}

#[test]
fn hopscotch() {
    (0..3).for_each(run::<Hopscotch, Crc64>);
    run::<Hopscotch, LineVersions>(9);
}

#[test]
fn cuckoo() {
    (0..3).for_each(run::<Cuckoo, Crc64>);
    run::<Cuckoo, LineVersions>(9);
}

#[test]
fn values_of_hundreds_of_megabytes_come_back() {
    let memory = PlainMemory::new(400 << 20);
    let mut table = TableOwner::<_, Cluster, Crc64>::create(&memory, OwnerOptions::default()).unwrap();
    let value = vec![7; 300 << 20];
    table.put(b"large", &value).unwrap();
    let mut lookup = KeyLookup::<Cluster, Crc64>::new(memory.len_bytes());
    let found = LocalReads::new(&memory).run(&mut lookup, b"large", None).unwrap();
    assert!(found == Found::Value(value));
    assert_eq!(lookup.counts().object, 2, "its start, which tells the length, and all of it");
}

#[test]
fn versions_are_compared_and_lengths_are_limited() {
    let memory = PlainMemory::new(1 << 20);
    let mut table = TableOwner::<_, Cluster, Crc64>::create(&memory, OwnerOptions::default()).unwrap();
    let first = table.compare_and_put(b"key", b"one", None).unwrap().header();
    assert_eq!(table.compare_and_put(b"key", b"two", None), Err(OwnerError::OtherVersion(Some(first))));
    let second = table.compare_and_put(b"key", b"two", Some(first)).unwrap().header();
    assert_eq!(second.version(), first.version() + 1);
    assert_eq!(table.compare_and_put(b"key", b"x", Some(first)), Err(OwnerError::OtherVersion(Some(second))));
    table.delete(b"key").unwrap();
    assert_eq!(table.compare_and_put(b"key", b"x", Some(second)), Err(OwnerError::OtherVersion(None)));
    let again = table.put(b"key", b"two").unwrap().header();
    assert_ne!(again, second, "an object of another life has another first word");
    assert_eq!(table.put(&[0; MAX_KEY_BYTES + 1], b""), Err(OwnerError::KeyTooLong(MAX_KEY_BYTES + 1)));
    assert!(matches!(table.put(b"k", &vec![0; 2 << 20]), Err(OwnerError::NoRoom(_))));
    let mut kept = Vec::new();
    table.get(b"key", &mut kept).unwrap();
    assert_eq!(kept, b"two");
}

#[test]
fn memory_without_a_table_and_tables_of_others_are_refused() {
    let memory = PlainMemory::new(1 << 20);
    let run = |memory: &PlainMemory| {
        let mut lookup = KeyLookup::<Cluster, Crc64>::new(memory.len_bytes());
        LocalReads::new(memory).run(&mut lookup, b"key", None)
    };
    assert_eq!(run(&memory), Err(longarm_remote::LookupError::Busy));
    assert_eq!(run(&PlainMemory::new(64)), Err(longarm_remote::LookupError::OtherFormat));
    TableOwner::<_, Hopscotch, Crc64>::create(&memory, OwnerOptions::default()).unwrap();
    assert_eq!(run(&memory), Err(longarm_remote::LookupError::OtherFormat));
}

/// Bytes of a hostile owner lead to no panic, and to no READ outside the memory.
#[test]
fn random_memory_brings_no_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..300 {
        let memory = PlainMemory::new(1 << 16);
        let allocator = AllocatorOptions { slab_bytes: 4096, ..AllocatorOptions::default() };
        let options = OwnerOptions { keys: 32, allocator, salt: 1, ..OwnerOptions::default() };
        let mut table = TableOwner::<_, Cluster, Crc64>::create(&memory, options).unwrap();
        (0..60_u32).for_each(|key| assert!(table.put(&key.to_le_bytes(), &[1; 30]).is_ok()));
        for _ in 0..random.usize(1..2000) {
            let at = random.u64(..memory.len_bytes() / 8) * 8;
            memory.store(at, random.u64(..) >> random.u32(..64));
        }
        let mut lookup = KeyLookup::<Cluster, Crc64>::new(memory.len_bytes());
        let mut reads = LocalReads::new(&memory);
        for key in 0..60_u32 {
            if let Ok(Found::Value(value)) = reads.run(&mut lookup, &key.to_le_bytes(), None) {
                assert_eq!(value, [1; 30], "a value that nobody wrote");
            }
            let _ = table.put(&key.to_le_bytes(), &[2; 30]);
            let _ = table.put(&key.to_le_bytes(), &[1; 30]);
            let _ = table.delete(&(key + 30).to_le_bytes());
        }
    }
}

#[test]
fn each_table_has_a_secret_of_its_own() {
    assert_ne!(OwnerOptions::default().salt, OwnerOptions::default().salt);
}

//! Trees beside a map of the standard library: random operations, keys of many shapes.

use std::collections::BTreeMap;

use longarm_remote::{
    AllocatorOptions, Cluster, Crc64, Found, KeyLookup, KeyRange, LineVersions, LocalReads, Location, LocationCache,
    LookupError, MAX_KEY_BYTES, NODE_BYTES, NodeCache, OwnerError, OwnerOptions, PlainMemory, PutOutcome, ScanItem,
    TableOwner, TornCheck, TreeLookup, TreeOptions, TreeOwner, TreeScan, WordMemory,
};

/// A tree, its model, and a reader that remembers nodes and locations, right or wrong.
struct ModelRun<'m, C> {
    tree: TreeOwner<&'m PlainMemory, C>,
    model: BTreeMap<Vec<u8>, Vec<u8>>,
    reads: LocalReads<&'m PlainMemory>,
    lookup: TreeLookup<C>,
    scan: TreeScan<C>,
    nodes: NodeCache,
    locations: LocationCache,
    random: fastrand::Rng,
    shape: KeyShape,
}

#[derive(Clone, Copy, Debug)]
enum KeyShape {
    /// Numbers, in the order of their bytes.
    Numbers,
    /// A few bytes, also none.
    Short,
    /// Long common beginnings, some of them of tens of kilobytes: separators in blocks of their own.
    Long,
}

impl<C: TornCheck> ModelRun<'_, C> {
    fn key(&mut self) -> Vec<u8> {
        match self.shape {
            KeyShape::Numbers => self.random.u32(..4000).to_be_bytes().to_vec(),
            KeyShape::Short => (0..self.random.usize(..7)).map(|_| self.random.u8(b'a'..=b'd')).collect(),
            KeyShape::Long => {
                let begin =
                    [70, 300, MAX_KEY_BYTES - 2][usize::from(self.random.u8(..40) == 0) + self.random.usize(..2)];
                let mut key = vec![b'k'; begin];
                key.extend_from_slice(&self.random.u16(..600).to_be_bytes());
                key
            }
        }
    }

    fn operate(&mut self, time: u64, deletes: u8) {
        self.tree.set_now(time * 1_000_000);
        let key = self.key();
        match self.random.u8(..10) {
            0..5 if self.random.u8(..10) < deletes => {
                assert_eq!(self.tree.delete(&key), Ok(self.model.remove(&key).is_some()));
            }
            0..5 => {
                let longest = [10, 100, 3000][self.random.usize(..3)];
                let value = vec![self.random.u8(..); self.random.usize(..longest)];
                let put = self.tree.put(&key, &value).unwrap();
                let before = self.model.insert(key, value);
                assert_eq!(matches!(put, PutOutcome::Updated(_)), before.is_some());
            }
            5 if self.random.u8(..20) == 0 => self.scan(&key),
            _ => self.look_up(&key),
        }
        assert_eq!(self.tree.len(), self.model.len() as u64);
    }

    fn look_up(&mut self, key: &[u8]) {
        let wanted = self.model.get(key).cloned();
        let mut bytes = Vec::new();
        let header = self.tree.get(key, &mut bytes).unwrap();
        assert_eq!(header.map(|_| bytes), wanted);
        let tag = self.lookup.tag_of(key);
        let remembered: Option<Location> =
            tag.and_then(|tag| self.locations.get(tag ^ u64::from(self.random.u8(..20) == 0)));
        let found = self.reads.run_tree(&mut self.lookup, key, remembered, &mut self.nodes).unwrap();
        assert_eq!(found, wanted.map_or(Found::Absent, Found::Value));
        if let (Found::Value(_), Some(tag), Some(location)) = (found, tag, self.reads.location()) {
            self.locations.put(tag, location);
        }
    }

    fn scan(&mut self, from: &[u8]) {
        let (limit, mut to) = (self.random.usize(..200), self.key());
        let range = match self.random.u8(..4) {
            0 => KeyRange::of(from..),
            1 => KeyRange::prefix(&from[..self.random.usize(..=from.len())]),
            2 => KeyRange::all(),
            _ => {
                to = to.max(from.to_vec());
                KeyRange::of(from..=&to)
            }
        };
        let wanted: Vec<(Vec<u8>, Vec<u8>)> = self
            .model
            .iter()
            .filter(|(key, _)| range.contains(key))
            .take(limit)
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut found = Vec::new();
        let each = |key: &[u8], value: &[u8], _| found.push((key.to_vec(), value.to_vec()));
        self.tree.scan(&range, limit, each).unwrap();
        assert!(found == wanted, "{} of {} keys", found.len(), wanted.len());
        found.clear();
        let each = |item: ScanItem<'_>| found.push((item.key.to_vec(), item.object.value.to_vec()));
        self.reads.scan(&mut self.scan, &range, limit, &mut self.nodes, each).unwrap();
        assert!(found == wanted, "a reader: {} of {} keys", found.len(), wanted.len());
    }

    fn check_all(&mut self) {
        let keys: Vec<Vec<u8>> = self.model.keys().cloned().collect();
        let mut told = Vec::new();
        self.tree.each_key(|key, _| told.push(key.to_vec())).unwrap();
        assert!(told == keys, "{} keys of {}", told.len(), keys.len());
        keys.iter().for_each(|key| self.look_up(key));
    }
}

fn run<C: TornCheck>(shape: KeyShape, seed: u64, nodes: usize) {
    let memory = PlainMemory::new(256 << 20);
    let mut run = ModelRun {
        tree: TreeOwner::<_, C>::create(&memory, TreeOptions { salt: seed, ..TreeOptions::default() }).unwrap(),
        model: BTreeMap::new(),
        reads: LocalReads::new(&memory),
        lookup: TreeLookup::new(memory.len_bytes()),
        scan: TreeScan::new(memory.len_bytes(), 1 + seed as usize * 20),
        nodes: NodeCache::new(nodes),
        locations: LocationCache::new(200),
        random: fastrand::Rng::with_seed(seed),
        shape,
    };
    // It grows, shrinks, and grows again.
    for (phase, deletes) in [3, 9, 2].into_iter().enumerate() {
        (0..8000).for_each(|time| run.operate(phase as u64 * 8000 + time, deletes));
        run.check_all();
        assert!(run.nodes.len() <= run.nodes.capacity());
    }
    println!("{shape:?}: {} keys in {} nodes, {} levels", run.tree.len(), run.tree.nodes(), run.tree.levels());
    assert!(run.tree.levels() > 1);
    let mut keys: Vec<Vec<u8>> = run.model.keys().cloned().collect();
    run.random.shuffle(&mut keys);
    for key in keys {
        assert_eq!(run.tree.delete(&key), Ok(true));
        run.model.remove(&key);
    }
    run.check_all();
    run.tree.set_now(1 << 60);
    assert_eq!((run.tree.nodes(), run.tree.levels(), run.tree.blocks().waiting_bytes()), (1, 1, 0));
    // An empty leaf is all that is left.
    assert_eq!(run.tree.blocks().used_bytes(), NODE_BYTES);
}

#[test]
fn numbers() {
    (0..3).for_each(|seed| run::<Crc64>(KeyShape::Numbers, seed, 16));
    run::<LineVersions>(KeyShape::Numbers, 9, 0);
}

#[test]
fn short_keys() {
    (0..3).for_each(|seed| run::<Crc64>(KeyShape::Short, seed, 1000));
}

#[test]
fn long_common_beginnings() {
    (0..3).for_each(|seed| run::<Crc64>(KeyShape::Long, seed, 16));
}

#[test]
fn ascending_keys_fill_their_leaves() {
    let memory = PlainMemory::new(16 << 20);
    let mut tree = TreeOwner::<_, Crc64>::create(&memory, TreeOptions::default()).unwrap();
    for key in 0..10_000_u32 {
        tree.put(&key.to_be_bytes(), b"v").unwrap();
    }
    let leaves = 10_000 / 53;
    assert!(tree.nodes() < leaves * 11 / 10, "{} nodes", tree.nodes());
}

#[test]
fn versions_are_compared_and_lengths_are_limited() {
    let memory = PlainMemory::new(1 << 20);
    let mut tree = TreeOwner::<_, Crc64>::create(&memory, TreeOptions::default()).unwrap();
    let first = tree.compare_and_put(b"key", b"one", None).unwrap().header();
    assert_eq!(tree.compare_and_put(b"key", b"two", None), Err(OwnerError::OtherVersion(Some(first))));
    let second = tree.compare_and_put(b"key", b"two", Some(first)).unwrap().header();
    assert_eq!(tree.compare_and_put(b"key", b"x", Some(first)), Err(OwnerError::OtherVersion(Some(second))));
    tree.delete(b"key").unwrap();
    assert_eq!(tree.compare_and_put(b"key", b"x", Some(second)), Err(OwnerError::OtherVersion(None)));
    assert_eq!(tree.put(&[0; MAX_KEY_BYTES + 1], b""), Err(OwnerError::KeyTooLong(MAX_KEY_BYTES + 1)));
    assert!(matches!(tree.put(b"k", &vec![0; 2 << 20]), Err(OwnerError::NoRoom(_))));
    assert!(tree.is_empty());
}

/// Without room for nodes a put is refused, and nothing has changed.
#[test]
fn a_tree_without_room_stays_as_it_is() {
    let memory = PlainMemory::new(64 << 10);
    let allocator = AllocatorOptions { slab_bytes: 4096, ..AllocatorOptions::default() };
    let options = TreeOptions { allocator, ..TreeOptions::default() };
    let mut tree = TreeOwner::<_, Crc64>::create(&memory, options).unwrap();
    let (mut count, mut value) = (0_u32, Vec::new());
    while tree.put(&count.to_be_bytes(), b"v").is_ok() {
        count += 1;
    }
    assert!(count > 300 && tree.len() == u64::from(count));
    for key in 0..count {
        assert!(tree.get(&key.to_be_bytes(), &mut value).unwrap().is_some());
    }
    for key in 0..count {
        assert_eq!(tree.delete(&key.to_be_bytes()), Ok(true));
    }
    tree.set_now(1 << 60);
    assert_eq!((tree.nodes(), tree.blocks().used_bytes()), (1, NODE_BYTES));
}

#[test]
fn readers_of_tables_and_of_trees_know_that_this_is_the_other() {
    let memory = PlainMemory::new(1 << 20);
    let run = |memory: &PlainMemory| {
        let mut lookup = TreeLookup::<Crc64>::new(memory.len_bytes());
        LocalReads::new(memory).run_tree(&mut lookup, b"key", None, &mut NodeCache::new(0))
    };
    assert_eq!(run(&memory), Err(LookupError::Busy));
    assert_eq!(run(&PlainMemory::new(64)), Err(LookupError::OtherFormat));
    TableOwner::<_, Cluster, Crc64>::create(&memory, OwnerOptions::default()).unwrap();
    assert_eq!(run(&memory), Err(LookupError::OtherFormat));
    TreeOwner::<_, Crc64>::create(&memory, TreeOptions::default()).unwrap();
    assert_eq!(run(&memory), Ok(Found::Absent));
    let mut lookup = KeyLookup::<Cluster, Crc64>::new(memory.len_bytes());
    assert_eq!(LocalReads::new(&memory).run(&mut lookup, b"key", None), Err(LookupError::OtherFormat));
}

/// Bytes of a hostile owner lead readers to no panic, and to no READ outside the memory. Bytes of a hostile peer lead the
/// owner to no panic.
#[test]
fn random_memory_brings_no_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        let memory = PlainMemory::new(1 << 16);
        let allocator = AllocatorOptions { slab_bytes: 4096, ..AllocatorOptions::default() };
        let options = TreeOptions { allocator, salt: 1, ..TreeOptions::default() };
        let mut tree = TreeOwner::<_, Crc64>::create(&memory, options).unwrap();
        (0..200_u32).for_each(|key| assert!(tree.put(&key.to_le_bytes(), &[1; 30]).is_ok()));
        for _ in 0..random.usize(1..200) {
            let at = random.u64(..memory.len_bytes() / 8) * 8;
            memory.store(at, random.u64(..) >> random.u32(..64));
        }
        let (mut lookup, mut nodes) = (TreeLookup::<Crc64>::new(memory.len_bytes()), NodeCache::new(16));
        let mut reads = LocalReads::new(&memory);
        for key in 0..200_u32 {
            if let Ok(Found::Value(value)) = reads.run_tree(&mut lookup, &key.to_le_bytes(), None, &mut nodes) {
                assert_eq!(value, [1; 30], "a value that nobody wrote");
            }
            let _ = tree.put(&key.to_le_bytes(), &[2; 30]);
            let _ = tree.put(&key.to_le_bytes(), &[1; 30]);
            let _ = tree.delete(&(key + 100).to_le_bytes());
        }
        let _ = tree.scan(&KeyRange::all(), usize::MAX, |_, _, _| {});
        let mut scan = TreeScan::<Crc64>::new(memory.len_bytes(), 8);
        let whole = |item: ScanItem<'_>| assert!(item.object.value == [1; 30] || item.object.value == [2; 30]);
        let _ = reads.scan(&mut scan, &KeyRange::all(), usize::MAX, &mut nodes, whole);
    }
}

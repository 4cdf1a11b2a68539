//! READs per lookup in a tree of 65,536 keys, with and without copies of inner nodes.

use longarm_remote::{
    Crc64, Found, KeyRange, LocalReads, LookupCounts, NodeCache, PlainMemory, ScanStep, TreeLookup, TreeOptions,
    TreeOwner, TreeScan, WordMemory,
};

const KEYS: u64 = 1 << 16;

/// Numbers that look random, each once.
fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

fn tree(memory: &PlainMemory) -> TreeOwner<&PlainMemory, Crc64> {
    let mut tree = TreeOwner::create(memory, TreeOptions { salt: 1, ..TreeOptions::default() }).unwrap();
    for number in 0..KEYS {
        tree.set_now(number << 20);
        tree.put(&key(number), b"v").unwrap();
    }
    tree
}

/// READs of nodes and of objects per lookup of keys that are there, or of some that are not.
fn reads_per_lookup(memory: &PlainMemory, nodes: usize, are_there: bool) -> (f64, f64) {
    let (mut lookup, mut cache) = (TreeLookup::<Crc64>::new(memory.len_bytes()), NodeCache::new(nodes));
    let (mut reads, mut sum) = (LocalReads::new(memory), LookupCounts::default());
    // The first round fills the cache.
    for number in 0..2 * KEYS {
        let number = number % KEYS + if are_there { 0 } else { KEYS };
        let found = reads.run_tree(&mut lookup, &key(number), None, &mut cache).unwrap();
        assert_eq!(matches!(found, Found::Value(_)), are_there);
        if lookup.counts().root == 0 {
            sum.index += lookup.counts().index;
            sum.object += lookup.counts().object;
        }
        if number.is_multiple_of(KEYS) {
            sum = LookupCounts::default();
        }
    }
    (f64::from(sum.index) / (KEYS - 1) as f64, f64::from(sum.object) / (KEYS - 1) as f64)
}

#[test]
fn reads_of_nodes_per_lookup() {
    let memory = PlainMemory::new(32 << 20);
    let tree = tree(&memory);
    let levels = f64::from(tree.levels());
    println!("{KEYS} keys: {} nodes, {} levels", tree.nodes(), tree.levels());
    let mut before = levels + 1.0;
    for nodes in [0, 8, 16, 32, 64, 4096] {
        let (index, object) = reads_per_lookup(&memory, nodes, true);
        println!("copies of {nodes} inner nodes: {index:.3} READs of nodes, {object:.3} of objects");
        assert!(index <= before && object == 1.0);
        before = index;
    }
    assert_eq!(reads_per_lookup(&memory, 0, true).0, levels, "one node of each level");
    assert_eq!(before, 1.0, "the leaf");
    let (index, object) = reads_per_lookup(&memory, 4096, false);
    println!("absent keys, all inner nodes known: {index:.3} READs of nodes, {object:.3} of objects");
    assert_eq!((index, object < 0.001), (2.0, true), "the leaf, and its first word");
}

/// READs of a scan, and times that it waits for some at the same time.
#[test]
fn reads_of_scans() {
    let memory = PlainMemory::new(32 << 20);
    let _tree = tree(&memory);
    let (mut scan, mut cache) = (TreeScan::<Crc64>::new(memory.len_bytes(), 16), NodeCache::new(4096));
    for limit in [1, 10, 100] {
        let (mut reads, mut waits, mut items, mut bytes) = (0, 0, 0, Vec::new());
        for number in 0..200 {
            let mut step = scan.start(&KeyRange::of(key(number).as_slice()..), limit, &mut cache);
            while step != ScanStep::Done {
                if step == ScanStep::Reads {
                    waits += 1;
                    for number in 0..scan.reads().len() {
                        let wanted = scan.reads()[number];
                        bytes.resize(wanted.len_bytes as usize, 0);
                        memory.copy_out(wanted.at, &mut bytes);
                        scan.feed(number, &bytes);
                        reads += 1;
                    }
                } else {
                    assert_eq!(step, ScanStep::Items);
                    items += scan.items().count();
                }
                step = scan.advance(&mut cache);
            }
        }
        let each = |sum: usize| sum as f64 / 200.0;
        println!("scans of {limit}: {:.1} keys, {:.1} READs, {:.1} waits", each(items), each(reads), each(waits));
        assert!(each(items) > limit as f64 * 0.99);
        // A leaf and its first word for at least 25 keys, and few objects twice.
        assert!(each(reads) < 4.0 + limit as f64 * 1.2, "{reads}");
    }
}

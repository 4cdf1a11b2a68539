//! A peer with the right to write stores anything anywhere: its table breaks, and the owner's program goes on.

use longarm_remote::{
    Cluster, Crc64, Cuckoo, Hopscotch, LastAccess, OwnerOptions, PeerTable, PlainMemory, TableLayout, TableOwner,
    WordMemory,
};

/// A word that may lead somewhere: one of the table's own, near one, or any.
fn hostile_word(memory: &PlainMemory, random: &mut fastrand::Rng) -> u64 {
    let words = memory.len_bytes() / 8;
    match random.u8(..5) {
        0 => random.u64(..),
        1 => memory.load(random.u64(..words) * 8),
        2 => memory.load(random.u64(..words) * 8) ^ 1 << random.u8(..64),
        3 => random.u64(..words) * 8,
        _ => 0,
    }
}

fn storm<L: TableLayout>(seed: u64) -> (u64, u64) {
    let (memory, mut random) = (PlainMemory::new(256 << 10), fastrand::Rng::with_seed(seed));
    let options = OwnerOptions { keys: 16, ..OwnerOptions::default() };
    let mut owner = TableOwner::<_, L, Crc64>::create(&memory, options).unwrap();
    let copy = owner.lend_copy(4096).unwrap();
    let (mut done, mut refused, mut value) = (0, 0, Vec::new());
    for round in 0..3000_u64 {
        if random.u8(..4) == 0 {
            // Most of what is in use lies at the beginning.
            let words = memory.len_bytes() / 8 / [1, 8, 32][random.usize(..3)];
            memory.store(random.u64(..words) * 8, hostile_word(&memory, &mut random));
        }
        let key = random.u16(..200).to_le_bytes();
        value.resize(random.usize(..600), round as u8);
        owner.set_now(round * 5_000_000);
        let outcome = match random.u8(..8) {
            0..3 => owner.put(&key, &value).map(|_| ()),
            3 => owner.delete(&key).map(|_| ()),
            4 => owner.get(&key, &mut Vec::new()).map(|_| ()),
            5 => owner.lock(&key).map(|_| owner.unlock(&key)),
            6 => owner.each_key(|_, _| ()),
            _ => {
                let last = [LastAccess::Over, LastAccess::MayCome][random.usize(..2)];
                owner.copied_key(copy, 4096);
                owner.end_lock(&key, random.u16(..3), Some((copy, 4096)), last).map(|_| ())
            }
        };
        *(if outcome.is_ok() { &mut done } else { &mut refused }) += 1;
    }
    (done, refused)
}

#[test]
fn an_owner_survives_whatever_peers_store() {
    let mut sum = (0, 0);
    for seed in 0..60 {
        for (done, refused) in [storm::<Cluster>(seed), storm::<Hopscotch>(seed), storm::<Cuckoo>(seed)] {
            sum = (sum.0 + done, sum.1 + refused);
        }
    }
    assert!(sum.0 > 10_000 && sum.1 > 10_000, "{sum:?}");
}

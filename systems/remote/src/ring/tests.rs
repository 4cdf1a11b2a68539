//! Rings whose words arrive in any order, whose writers stop in mid-record, and whose writers are hostile.

use super::*;
use crate::memory::{PlainMemory, WordMemory};

const MEMORY: u64 = 64 + 512;
const LONGEST: u32 = 200;

/// The words of WRITEs on their way, in the order of the WRITEs.
type OnTheWay = std::collections::VecDeque<Vec<(u64, u64)>>;

fn put_on_the_way(writer: &RingWriter, write: &RingWrite, way: &mut OnTheWay) {
    let bytes = &writer.batch()[write.bytes.clone()];
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    way.push_back(words.enumerate().map(|(number, word)| (write.at + number as u64 * 8, word)).collect());
}

/// Stores one word of the first WRITE, in any order among its words.
fn deliver(memory: &PlainMemory, way: &mut OnTheWay, random: &mut fastrand::Rng) {
    let Some(write) = way.front_mut() else { return };
    let (at, word) = write.swap_remove(random.usize(..write.len()));
    memory.store(at, word);
    if write.is_empty() {
        way.pop_front();
    }
}

fn data(number: u64, random: &mut fastrand::Rng) -> Vec<u8> {
    let len = random.usize(..=LONGEST as usize);
    // Many zeros: they look like words that have not arrived.
    (0..len).map(|at| if at % 3 == 0 { number as u8 } else { 0 }).collect()
}

#[test]
fn records_arrive_whole_and_in_order_whatever_the_order_of_their_words() {
    for seed in 0..200 {
        let (memory, mut random) = (PlainMemory::new(MEMORY), fastrand::Rng::with_seed(seed));
        let mut reader = RingReader::new(&memory, LONGEST).unwrap();
        let (mut writer, mut way, mut sent) = (RingWriter::new(MEMORY), OnTheWay::new(), Vec::new());
        let (mut taken, mut bytes, mut wraps, mut full) = (0, Vec::new(), 0, 0);
        while taken < 200 {
            match random.u8(..8) {
                0 => {
                    let record = data(sent.len() as u64, &mut random);
                    match writer.append(&record) {
                        Ok((number, first, rest)) => {
                            assert_eq!(number, sent.len() as u64);
                            wraps += usize::from(rest.is_some());
                            [Some(first), rest]
                                .iter()
                                .flatten()
                                .for_each(|write| put_on_the_way(&writer, write, &mut way));
                            sent.push(record);
                        }
                        Err(_) => {
                            full += 1;
                            writer.learn(memory.load(0));
                        }
                    }
                }
                1 => {
                    if let Some(number) = reader.take(&mut bytes).unwrap() {
                        assert_eq!((number, &bytes), (taken as u64, &sent[taken]), "seed {seed}");
                        taken += 1;
                    }
                }
                _ => deliver(&memory, &mut way, &mut random),
            }
        }
        assert!(wraps > 10 && full > 0, "seed {seed}: {wraps} wraps, {full} times full");
    }
}

#[test]
fn a_writer_that_stops_in_mid_record_leaves_no_record() {
    for seed in 0..300 {
        let (memory, mut random) = (PlainMemory::new(MEMORY), fastrand::Rng::with_seed(seed));
        let mut reader = RingReader::new(&memory, LONGEST).unwrap();
        let (mut writer, mut way, mut bytes) = (RingWriter::new(MEMORY), OnTheWay::new(), Vec::new());
        let (_, first, rest) = writer.append(&[random.u8(1..); 100]).unwrap();
        assert_eq!(rest, None);
        put_on_the_way(&writer, &first, &mut way);
        let words = way[0].len();
        // The padding is zeros: the last words may be those.
        for _ in 0..random.usize(..words - 1) {
            deliver(&memory, &mut way, &mut random);
        }
        let is_padding = way[0].iter().all(|(_, word)| *word == 0);
        assert_eq!(reader.take(&mut bytes).unwrap().is_some(), is_padding, "seed {seed}");
    }
}

#[test]
fn hostile_writers_break_their_ring_and_nothing_else() {
    let mut outcomes = [0; 3];
    for seed in 0..3000 {
        let (memory, mut random) = (PlainMemory::new(MEMORY), fastrand::Rng::with_seed(seed));
        let mut reader = RingReader::new(&memory, LONGEST).unwrap();
        for at in (64..MEMORY).step_by(8) {
            let len = u64::from([0, 8, LONGEST, LONGEST + 1, u32::MAX][random.usize(..5)]);
            memory.store(at, [0, random.u64(..), len << 32 | 1, 1][random.usize(..4)]);
        }
        let mut bytes = Vec::new();
        match reader.take(&mut bytes) {
            Ok(None) => outcomes[0] += 1,
            Err(RingBroken::Header(_)) => outcomes[1] += 1,
            other => panic!("seed {seed}: {other:?}"),
        }
        assert!(bytes.len() <= LONGEST as usize);
        // A whole record with another number.
        let mut reader = RingReader::new(&memory, LONGEST).unwrap();
        let mut writer = RingWriter::new(MEMORY);
        assert_eq!(writer.append(b"").unwrap().0, 0);
        let (_, first, _) = writer.append(b"second").unwrap();
        for (number, word) in writer.batch().chunks_exact(8).enumerate() {
            memory.store(first.at - 32 + number as u64 * 8, u64::from_le_bytes(word.try_into().unwrap()));
        }
        assert_eq!(reader.take(&mut bytes), Err(RingBroken::Number { is: 1, wanted: 0 }));
        outcomes[2] += 1;
    }
    assert!(outcomes.iter().all(|count| *count > 100), "{outcomes:?}");
}

#[test]
fn sizes_that_cannot_work_are_refused() {
    assert!(RingReader::new(PlainMemory::new(64), 8).is_none());
    assert!(RingReader::new(PlainMemory::new(MEMORY), 1000).is_none());
    let mut writer = RingWriter::new(MEMORY);
    assert_eq!(writer.append(&[0; 300]), Err(RingFull(336)));
    // A head that cannot be is no head.
    let (_, first, _) = writer.append(&[1; 200]).unwrap();
    assert_eq!(first.at, RING_DATA_AT);
    writer.learn(u64::MAX);
    assert_eq!(writer.append(&[1; 200]).unwrap().0, 1);
    assert_eq!(writer.append(&[1; 200]), Err(RingFull(232)));
}

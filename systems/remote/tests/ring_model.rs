//! Model check of a ring's shared words: every interleaving of small cases, with the reorderings that the memory model allows. The
//! ring is the library's own; its memory has loom's atomics.
//!
//! A WRITE promises whole words and no order of them, so the writer stores the words of a record in several orders. Of two WRITEs
//! the first is over before the second begins.

use std::collections::VecDeque;

use longarm_remote::{RingBroken, RingReader, RingWriter, WordMemory};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

/// Before the records: the head, and the writer's credits.
const HEAD_WORDS: usize = 8;
/// Words of a ring that has room for two records of eight bytes and for no third.
const RING_WORDS: usize = 12;
const LONGEST: u32 = 8;

/// Memory with words of the model. Those in the middle of the ring's head are never used, so they are plain zeros.
struct ModelMemory {
    head: AtomicU64,
    words: Vec<AtomicU64>,
}

impl ModelMemory {
    fn new() -> Arc<ModelMemory> {
        let words = (0..RING_WORDS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(ModelMemory { head: AtomicU64::new(0), words })
    }

    fn word(&self, at: u64) -> Option<&AtomicU64> {
        match (at / 8) as usize {
            0 => Some(&self.head),
            word => self.words.get(word.checked_sub(HEAD_WORDS)?),
        }
    }
}

/// The memory as the reader has it. It stores zeros into fresh memory: those stores are no part of the model.
struct OwnMemory {
    memory: Arc<ModelMemory>,
    is_fresh: std::cell::Cell<bool>,
}

impl WordMemory for OwnMemory {
    fn len_bytes(&self) -> u64 {
        ((HEAD_WORDS + RING_WORDS) * 8) as u64
    }

    fn load(&self, at: u64) -> u64 {
        self.is_fresh.set(false);
        self.memory.word(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn store(&self, at: u64, value: u64) {
        if !self.is_fresh.get()
            && let Some(word) = self.memory.word(at)
        {
            word.store(value, Ordering::Release);
        }
    }

    fn compare_swap(&self, _: u64, _: u64, _: u64) -> u64 {
        unreachable!("rings have no atomics")
    }

    fn copy_in(&self, _: u64, _: &[u8]) {
        unreachable!("the owner of a ring writes words")
    }
}

fn reader(memory: &Arc<ModelMemory>) -> RingReader<OwnMemory> {
    let own = OwnMemory { memory: Arc::clone(memory), is_fresh: std::cell::Cell::new(true) };
    RingReader::new(own, LONGEST).unwrap()
}

/// The order in which the words of a WRITE arrive.
#[derive(Clone, Copy)]
enum Arrival {
    FirstToLast,
    LastToFirst,
    EndsFirst,
}

/// Appends a record, and stores its words. Waits for room by the head.
fn send(memory: &ModelMemory, writer: &mut RingWriter, data: &[u8], arrival: Arrival) {
    let (_, first, rest) = loop {
        match writer.append(data) {
            Ok(placed) => break placed,
            Err(_) => {
                thread::yield_now();
                writer.learn(memory.head.load(Ordering::Acquire));
            }
        }
    };
    for write in [Some(first), rest].into_iter().flatten() {
        let words =
            writer.batch()[write.bytes].chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        let mut words: VecDeque<_> = (write.at..).step_by(8).zip(words).collect();
        let mut turn = 0;
        while !words.is_empty() {
            turn += 1;
            let next = match arrival {
                Arrival::FirstToLast => words.pop_front(),
                Arrival::LastToFirst => words.pop_back(),
                Arrival::EndsFirst if turn % 2 == 0 => words.pop_back(),
                Arrival::EndsFirst => words.pop_front(),
            };
            let (at, value) = next.unwrap();
            // Words of one WRITE have no order among each other.
            memory.word(at).unwrap().store(value, Ordering::Relaxed);
        }
        loom::sync::atomic::fence(Ordering::Release);
    }
}

fn data(number: u64) -> [u8; 8] {
    (0x1111 * (number + 1)).to_le_bytes()
}

fn take(ring: &mut RingReader<OwnMemory>, wanted: u64) {
    let mut bytes = Vec::new();
    let number = loop {
        match ring.take(&mut bytes).unwrap() {
            Some(number) => break number,
            None => thread::yield_now(),
        }
    };
    ring.tell();
    assert_eq!((number, &bytes[..]), (wanted, &data(wanted)[..]));
}

fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 20_000;
    builder.check(run);
}

/// Three records: the second wraps around the ring's end, and the third waits until the first was taken.
fn records_arrive(arrival: Arrival) {
    model(move || {
        let memory = ModelMemory::new();
        let mut ring = reader(&memory);
        let writing = thread::spawn(move || {
            let mut writer = RingWriter::new(((HEAD_WORDS + RING_WORDS) * 8) as u64);
            (0..3).for_each(|number| send(&memory, &mut writer, &data(number), arrival));
        });
        (0..3).for_each(|number| take(&mut ring, number));
        writing.join().unwrap();
        assert_eq!(ring.take(&mut Vec::new()), Ok(None));
    });
}

#[test]
fn records_arrive_whole_when_words_ascend() {
    records_arrive(Arrival::FirstToLast);
}

#[test]
fn records_arrive_whole_when_words_descend() {
    records_arrive(Arrival::LastToFirst);
}

#[test]
fn records_arrive_whole_when_their_ends_are_first() {
    records_arrive(Arrival::EndsFirst);
}

/// The model sees mistakes: an owner that tells the head before it fills the place with zeros wipes the next record.
#[test]
#[should_panic(expected = "wiped")]
fn an_owner_that_tells_the_head_too_early_is_found() {
    model(|| {
        let memory = ModelMemory::new();
        let writing = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let mut writer = RingWriter::new(((HEAD_WORDS + RING_WORDS) * 8) as u64);
                (0..3).for_each(|number| send(&memory, &mut writer, &data(number), Arrival::FirstToLast));
            })
        };
        let record_words = 5;
        while memory.words[record_words - 1].load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        memory.head.store(record_words as u64 * 8, Ordering::Release);
        memory.words[..record_words].iter().for_each(|word| word.store(0, Ordering::Release));
        writing.join().unwrap();
        // The third record begins behind the second, two words before the ring's end.
        let third: Vec<u64> =
            memory.words[10..].iter().chain(&memory.words[..3]).map(|word| word.load(Ordering::Acquire)).collect();
        assert!(third.iter().all(|word| *word != 0), "wiped: {third:x?}");
    });
}

/// The model sees torn records: their check is what refuses them.
#[test]
fn a_record_without_one_of_its_words_is_none() {
    model(|| {
        let memory = ModelMemory::new();
        let mut ring = reader(&memory);
        let mut writer = RingWriter::new(((HEAD_WORDS + RING_WORDS) * 8) as u64);
        let (_, first, rest) = writer.append(&data(0)).unwrap();
        assert!(rest.is_none());
        let words: Vec<u64> = writer.batch()[first.bytes]
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let late = thread::spawn({
            let memory = Arc::clone(&memory);
            move || {
                for (number, word) in words.into_iter().enumerate().filter(|(number, _)| *number != 3) {
                    memory.words[number].store(word, Ordering::Relaxed);
                }
            }
        });
        let mut bytes = Vec::new();
        let outcome = ring.take(&mut bytes);
        late.join().unwrap();
        assert_eq!((outcome, ring.take(&mut bytes)), (Ok(None), Ok(None)));
        memory.words[0].store(7, Ordering::Relaxed);
        assert_eq!(ring.take(&mut bytes), Err(RingBroken::Header(7)));
    });
}

//! A table's memory: each word is stored alone, and others may run in between.

use std::sync::atomic::{AtomicU64, Ordering};

use remote::WordMemory;

use crate::sim::actor;

/// The order of the words of one copy.
pub(crate) enum CopyOrder {
    Ascending,
    Descending,
    Mixed(fastrand::Rng),
}

impl CopyOrder {
    pub(crate) fn draw(rng: &mut fastrand::Rng) -> CopyOrder {
        match rng.u8(..4) {
            0 | 1 => CopyOrder::Ascending,
            2 => CopyOrder::Descending,
            _ => CopyOrder::Mixed(rng.fork()),
        }
    }

    pub(crate) fn of(self, words: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..words).collect();
        match self {
            CopyOrder::Ascending => {}
            CopyOrder::Descending => order.reverse(),
            CopyOrder::Mixed(mut rng) => rng.shuffle(&mut order),
        }
        order
    }
}

/// Words that all actors reach.
pub(crate) struct SimMemory {
    words: Box<[AtomicU64]>,
}

fn step() {
    if let Some(actor) = actor::current() {
        actor.step_word();
    }
}

fn draw_order(words: usize) -> Vec<usize> {
    let order = actor::current().map_or(CopyOrder::Ascending, |actor| actor.draw(CopyOrder::draw));
    order.of(words)
}

impl SimMemory {
    pub(crate) fn new(len_bytes: u64) -> SimMemory {
        SimMemory { words: (0..len_bytes / 8).map(|_| AtomicU64::new(0)).collect() }
    }

    fn word(&self, at: u64) -> Option<&AtomicU64> {
        self.words.get((at / 8) as usize)
    }

    /// The word, without letting others run.
    pub(crate) fn peek(&self, at: u64) -> u64 {
        self.word(at).map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

impl WordMemory for SimMemory {
    fn len_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn load(&self, at: u64) -> u64 {
        step();
        self.peek(at)
    }

    fn store(&self, at: u64, word: u64) {
        step();
        if let Some(place) = self.word(at) {
            place.store(word, Ordering::Relaxed);
        }
    }

    fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> u64 {
        step();
        let Some(place) = self.word(at) else { return 0 };
        place.compare_exchange(compare, swap, Ordering::Relaxed, Ordering::Relaxed).unwrap_or_else(|before| before)
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        for number in draw_order(bytes.len().div_ceil(8)) {
            let part = &bytes[number * 8..bytes.len().min(number * 8 + 8)];
            let at = at + number as u64 * 8;
            step();
            let mut word = self.peek(at).to_le_bytes();
            word[..part.len()].copy_from_slice(part);
            if let Some(place) = self.word(at) {
                place.store(u64::from_le_bytes(word), Ordering::Relaxed);
            }
        }
    }

    fn copy_out(&self, at: u64, out: &mut [u8]) {
        for number in draw_order(out.len().div_ceil(8)) {
            step();
            let end = out.len().min(number * 8 + 8);
            let part = &mut out[number * 8..end];
            part.copy_from_slice(&self.peek(at + number as u64 * 8).to_le_bytes()[..part.len()]);
        }
    }
}

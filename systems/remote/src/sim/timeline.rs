//! Memory as a row of stores: what each word held at each time.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use fastrand::Rng;

use crate::memory::{WordMemory, store_part};

/// One store of a word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordStore {
    pub(crate) at: u64,
    pub(crate) word: u64,
}

/// The owner's memory: it notes each store, and stores the words of a copy in any order.
pub(crate) struct NotedMemory {
    words: RefCell<Vec<u64>>,
    stores: RefCell<Vec<WordStore>>,
    order: RefCell<Rng>,
    pub(crate) compares: Cell<u64>,
}

impl NotedMemory {
    pub(crate) fn new(len_bytes: u64, order: Rng) -> NotedMemory {
        NotedMemory {
            words: RefCell::new(vec![0; (len_bytes / 8) as usize]),
            stores: RefCell::default(),
            order: RefCell::new(order),
            compares: Cell::new(0),
        }
    }

    /// Number of stores so far: the time.
    pub(crate) fn now(&self) -> usize {
        self.stores.borrow().len()
    }

    pub(crate) fn into_stores(self) -> Vec<WordStore> {
        self.stores.into_inner()
    }
}

impl WordMemory for NotedMemory {
    fn len_bytes(&self) -> u64 {
        self.words.borrow().len() as u64 * 8
    }

    fn load(&self, at: u64) -> u64 {
        self.words.borrow().get((at / 8) as usize).copied().unwrap_or_default()
    }

    fn store(&self, at: u64, word: u64) {
        assert!(at.is_multiple_of(8), "a store at {at}");
        let mut words = self.words.borrow_mut();
        let place = words.get_mut((at / 8) as usize).unwrap_or_else(|| panic!("a store at {at}"));
        *place = word;
        self.stores.borrow_mut().push(WordStore { at, word });
    }

    fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> u64 {
        self.compares.set(self.compares.get() + 1);
        let before = self.load(at);
        if before == compare {
            self.store(at, swap);
        }
        before
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        let mut order: Vec<usize> = (0..bytes.len().div_ceil(8)).collect();
        self.order.borrow_mut().shuffle(&mut order);
        for number in order {
            let at = at + number as u64 * 8;
            let part = &bytes[number * 8..bytes.len().min(number * 8 + 8)];
            store_part(self, at, part);
        }
    }
}

/// All that a memory ever held. A time is a number of stores.
pub(crate) struct Timeline {
    words: HashMap<u64, Vec<(usize, u64)>>,
    end: usize,
}

impl Timeline {
    pub(crate) fn new(stores: &[WordStore]) -> Timeline {
        let mut words: HashMap<u64, Vec<(usize, u64)>> = HashMap::new();
        for (number, store) in stores.iter().enumerate() {
            words.entry(store.at).or_default().push((number + 1, store.word));
        }
        Timeline { words, end: stores.len() }
    }

    /// The time after all stores.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// The word at a time.
    pub(crate) fn word(&self, at: u64, time: usize) -> u64 {
        let Some(held) = self.words.get(&at) else { return 0 };
        held.partition_point(|(since, _)| *since <= time).checked_sub(1).map_or(0, |last| held[last].1)
    }

    /// The bytes that a READ gets which copies pieces of `grain` bytes, each at a time of its own.
    pub(crate) fn read(&self, at: u64, out: &mut [u8], grain: u64, mut time_of: impl FnMut() -> usize) {
        let (mut piece, mut time) = (None, 0);
        for (number, part) in out.chunks_mut(8).enumerate() {
            let at = at + number as u64 * 8;
            if piece != Some(at / grain) {
                (piece, time) = (Some(at / grain), time_of());
            }
            part.copy_from_slice(&self.word(at, time).to_le_bytes()[..part.len()]);
        }
    }
}

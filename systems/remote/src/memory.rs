//! Words of shared memory, as the owner of a table uses them.
//!
//! Readers on other machines copy the same memory at any time. So there is never a reference to its bytes: words are
//! loaded and stored, and bytes are copied.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory that peers read while its owner writes it, addressed from zero. Words are 8 bytes at multiples of 8, little endian.
///
/// A place out of range reads as zeros, and storing there is nothing: owners check places that peers may have written.
pub trait WordMemory {
    /// Length in bytes.
    fn len_bytes(&self) -> u64;
    /// The word at a multiple of 8 (acquire).
    fn load(&self, at: u64) -> u64;
    /// Stores a word in one piece (release).
    fn store(&self, at: u64, word: u64);
    /// Stores `swap` if the word is `compare`. Returns the word before. Atomic towards peers' atomics.
    fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> u64;
    /// Copies bytes to a multiple of 8, in any order.
    fn copy_in(&self, at: u64, bytes: &[u8]);
    /// Copies bytes from a multiple of 8, in any order.
    fn copy_out(&self, at: u64, out: &mut [u8]) {
        for (number, part) in out.chunks_mut(8).enumerate() {
            part.copy_from_slice(&self.load(at + number as u64 * 8).to_le_bytes()[..part.len()]);
        }
    }
}

impl<M: WordMemory + ?Sized> WordMemory for &M {
    fn len_bytes(&self) -> u64 {
        (**self).len_bytes()
    }
    fn load(&self, at: u64) -> u64 {
        (**self).load(at)
    }
    fn store(&self, at: u64, word: u64) {
        (**self).store(at, word);
    }
    fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> u64 {
        (**self).compare_swap(at, compare, swap)
    }
    fn copy_in(&self, at: u64, bytes: &[u8]) {
        (**self).copy_in(at, bytes);
    }
    fn copy_out(&self, at: u64, out: &mut [u8]) {
        (**self).copy_out(at, out);
    }
}

impl<M: WordMemory + ?Sized> WordMemory for Arc<M> {
    fn len_bytes(&self) -> u64 {
        (**self).len_bytes()
    }
    fn load(&self, at: u64) -> u64 {
        (**self).load(at)
    }
    fn store(&self, at: u64, word: u64) {
        (**self).store(at, word);
    }
    fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> u64 {
        (**self).compare_swap(at, compare, swap)
    }
    fn copy_in(&self, at: u64, bytes: &[u8]) {
        (**self).copy_in(at, bytes);
    }
    fn copy_out(&self, at: u64, out: &mut [u8]) {
        (**self).copy_out(at, out);
    }
}

/// Memory of this process, for tests and for tables without peers.
pub struct PlainMemory {
    words: Box<[AtomicU64]>,
}

impl PlainMemory {
    /// Zeroed memory; the length is rounded up to words.
    pub fn new(len_bytes: u64) -> PlainMemory {
        PlainMemory { words: (0..len_bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect() }
    }

    fn word(&self, at: u64) -> Option<&AtomicU64> {
        self.words.get(usize::try_from(at / 8).ok()?).filter(|_| at.is_multiple_of(8))
    }
}

impl WordMemory for PlainMemory {
    fn len_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn load(&self, at: u64) -> u64 {
        self.word(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn store(&self, at: u64, word: u64) {
        if let Some(place) = self.word(at) {
            place.store(word, Ordering::Release);
        }
    }

    fn compare_swap(&self, at: u64, compare: u64, swap: u64) -> u64 {
        let swapped =
            self.word(at).map(|word| word.compare_exchange(compare, swap, Ordering::SeqCst, Ordering::SeqCst));
        swapped.map_or(0, |swapped| swapped.unwrap_or_else(|before| before))
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        for (number, part) in bytes.chunks(8).enumerate() {
            store_part(self, at + number as u64 * 8, part);
        }
    }
}

/// Stores the first bytes of a word, at most eight, and leaves the others.
pub(crate) fn store_part(memory: &impl WordMemory, at: u64, part: &[u8]) {
    let mut word = memory.load(at).to_le_bytes();
    word[..part.len()].copy_from_slice(part);
    memory.store(at, u64::from_le_bytes(word));
}

/// The word at a multiple of 8 of copied bytes; zero beyond their end.
pub(crate) fn word_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_places_out_of_range_are_nothing() {
        let memory = PlainMemory::new(30);
        assert_eq!(memory.len_bytes(), 32);
        memory.copy_in(8, b"0123456789");
        let mut out = [0; 12];
        memory.copy_out(8, &mut out);
        assert_eq!(&out, b"0123456789\0\0");
        memory.store(32, 7);
        memory.store(4, 7);
        assert_eq!((memory.load(32), memory.load(4), memory.load(0)), (0, 0, 0));
        assert_eq!(memory.compare_swap(24, 0, 9), 0);
        assert_eq!(memory.compare_swap(24, 0, 8), 9);
        assert_eq!((memory.load(24), memory.compare_swap(32, 0, 9)), (9, 0));
    }
}

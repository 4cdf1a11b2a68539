//! Memory that a peer writes: its WRITEs land word by word, while their owner looks.

use std::cell::RefCell;
use std::collections::VecDeque;

use fastrand::Rng;

use crate::link::PeerArea;

/// A WRITE that has begun to land.
struct Landing {
    at: usize,
    bytes: Vec<u8>,
    done: usize,
}

struct AreaState {
    bytes: Vec<u8>,
    landing: VecDeque<Landing>,
    rng: Rng,
}

/// Memory of one end, written by the other. Whenever its owner touches it, some more words of the WRITEs under way may
/// land: ascending, each word whole, one WRITE behind the other.
pub(crate) struct SimArea {
    state: RefCell<AreaState>,
}

impl SimArea {
    pub(crate) fn new(len_bytes: u64, rng: Rng) -> SimArea {
        let bytes = vec![0; len_bytes as usize];
        SimArea { state: RefCell::new(AreaState { bytes, landing: VecDeque::new(), rng }) }
    }

    /// A WRITE begins to land; it must fit.
    pub(crate) fn begin(&self, at: u64, bytes: Vec<u8>) {
        self.state.borrow_mut().landing.push_back(Landing { at: at as usize, bytes, done: 0 });
    }

    /// The rest of the oldest WRITE lands.
    pub(crate) fn finish(&self) {
        let mut state = self.state.borrow_mut();
        while state.land_word().is_some_and(|is_last| !is_last) {}
    }

    /// The rest of all WRITEs is lost.
    pub(crate) fn cut(&self) {
        self.state.borrow_mut().landing.clear();
    }

    /// WRITEs that have not landed.
    #[cfg(test)]
    pub(crate) fn landing(&self) -> usize {
        self.state.borrow().landing.len()
    }

    /// The bytes as they are now.
    pub(crate) fn peek(&self, at: u64, len_bytes: u64) -> Vec<u8> {
        self.state.borrow().bytes[at as usize..(at + len_bytes) as usize].to_vec()
    }
}

impl AreaState {
    /// Lands the next word. Returns whether it was the last one of its WRITE.
    fn land_word(&mut self) -> Option<bool> {
        let landing = self.landing.front_mut()?;
        let from = landing.at + landing.done;
        let part = (8 - from % 8).min(landing.bytes.len() - landing.done);
        self.bytes[from..from + part].copy_from_slice(&landing.bytes[landing.done..landing.done + part]);
        landing.done += part;
        let is_last = landing.done == landing.bytes.len();
        if is_last {
            self.landing.pop_front();
        }
        Some(is_last)
    }

    /// The owner touches the memory.
    fn touch(&mut self) {
        if self.landing.is_empty() || self.rng.u8(..4) != 0 {
            return;
        }
        let words = if self.rng.u8(..4) == 0 { self.rng.u32(..512) } else { self.rng.u32(..6) };
        for _ in 0..words {
            self.land_word();
        }
    }
}

impl PeerArea for SimArea {
    fn len_bytes(&self) -> u64 {
        self.state.borrow().bytes.len() as u64
    }

    fn load(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.copy_out(at, &mut word);
        u64::from_le_bytes(word)
    }

    fn store(&self, at: u64, word: u64) {
        self.copy_in(at, &word.to_le_bytes());
    }

    fn copy_out(&self, at: u64, out: &mut [u8]) {
        assert!(at.is_multiple_of(8), "an area is read from a multiple of 8 on, not from {at}");
        let (state, mut done) = (&mut *self.state.borrow_mut(), 0);
        state.touch();
        while done < out.len() {
            let rest = out.len() - done;
            let part = if state.landing.is_empty() { rest } else { rest.min(8 * state.rng.usize(1..64)) };
            let from = at as usize + done;
            out[done..done + part].copy_from_slice(&state.bytes[from..from + part]);
            done += part;
            state.touch();
        }
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        assert!(at.is_multiple_of(8), "an area is written from a multiple of 8 on, not from {at}");
        let state = &mut *self.state.borrow_mut();
        state.touch();
        let at = at as usize;
        state.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        state.touch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_lands_ascending_in_whole_words() {
        let mut partial = 0;
        for seed in 0..50 {
            let area = SimArea::new(128, Rng::with_seed(seed));
            area.begin(8, vec![0xff; 100]);
            while area.landing() > 0 {
                let words: Vec<u64> =
                    (0..16).map(|word| u64::from_le_bytes(area.peek(8 * word, 8).try_into().unwrap())).collect();
                let landed = words[1..].iter().take_while(|word| **word != 0).count();
                assert!(words[0] == 0 && words[1 + landed..].iter().all(|word| *word == 0), "{words:x?}");
                partial += usize::from(landed > 0);
                area.load(0);
            }
            assert_eq!(area.peek(104, 8), [255, 255, 255, 255, 0, 0, 0, 0]);
        }
        assert!(partial > 0);
    }

    #[test]
    fn a_cut_write_stays_partial() {
        let area = SimArea::new(64, Rng::with_seed(1));
        area.begin(0, vec![1; 64]);
        area.cut();
        area.finish();
        assert_eq!(area.peek(0, 64), [0; 64]);
    }
}

//! Communication and transaction ids.
//!
//! A communication id has a number of 12 bits, which identifies the process on its host, and a counter of 20 bits.
//! A secret permutation scatters the counter's values. Each value comes once before one is repeated.
//! So an old message does not match a new connection, and a stranger cannot guess the next id.

/// Bits of a communication id below the number.
pub(crate) const COUNTER_BITS: u32 = 20;
const COUNTER_MASK: u32 = (1 << COUNTER_BITS) - 1;
/// The number of ids for one process number.
pub(crate) const COUNT: usize = 1 << COUNTER_BITS;

/// Generates the ids.
#[derive(Debug)]
pub(crate) struct IdGenerator {
    number: u16,
    counter: u32,
    factor: u32,
    flip: u32,
    transactions: u32,
}

impl IdGenerator {
    pub(crate) fn new(number: u16, seed: u64) -> IdGenerator {
        let mut state = seed;
        let mut draw = || mix(&mut state) as u32;
        IdGenerator { number, counter: draw(), factor: draw() | 1, flip: draw(), transactions: draw() }
    }

    pub(crate) fn set_number(&mut self, number: u16) {
        self.number = number;
    }

    /// The next id, which may still be in use.
    pub(crate) fn next(&mut self) -> u32 {
        self.counter = self.counter.wrapping_add(1);
        let scattered = self.counter.wrapping_mul(self.factor) ^ self.flip;
        u32::from(self.number) << COUNTER_BITS | scattered & COUNTER_MASK
    }

    /// The high half of the transaction ids that our connections choose. The low half is the connection's id.
    pub(crate) fn transactions(&self) -> u64 {
        u64::from(self.transactions) << 32
    }
}

/// SplitMix64: one step of a generator that spreads any seed over all bits.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ *state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_id_comes_once_before_one_is_repeated() {
        let mut ids = IdGenerator::new(0xabc, 7);
        let all: BTreeSet<u32> = (0..COUNT).map(|_| ids.next()).collect();
        assert_eq!(all.len(), COUNT);
        assert!(all.iter().all(|id| id >> COUNTER_BITS == 0xabc));
    }

    #[test]
    fn seeds_make_other_ids() {
        let first = |seed| {
            let mut ids = IdGenerator::new(1, seed);
            [ids.next(), ids.next(), ids.next()]
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
        let [a, b, c] = first(3);
        assert_ne!(b.wrapping_sub(a), c.wrapping_sub(b).wrapping_add(1), "no plain counting");
    }

    #[test]
    fn the_number_changes_for_ids_to_come() {
        let mut ids = IdGenerator::new(1, 1);
        ids.set_number(4095);
        assert_eq!(ids.next() >> COUNTER_BITS, 4095);
        assert_eq!(ids.transactions() as u32, 0);
    }
}

//! Communication and transaction ids.
//!
//! A communication id is a number of 12 bits, by which the host finds the process, and a counter of 20 bits.
//! The counter's values are scattered by a secret permutation: all of them come up before one comes again,
//! so that an old message does not meet a new connection, and a stranger does not guess the next.

/// Bits of a communication id below the number.
pub(crate) const COUNTER_BITS: u32 = 20;
const COUNTER_MASK: u32 = (1 << COUNTER_BITS) - 1;
/// How many ids there are for a number.
pub(crate) const COUNT: usize = 1 << COUNTER_BITS;

/// Where ids come from.
#[derive(Debug)]
pub(crate) struct Ids {
    number: u16,
    counter: u32,
    factor: u32,
    flip: u32,
    transactions: u32,
}

impl Ids {
    pub(crate) fn new(number: u16, seed: u64) -> Ids {
        let mut state = seed;
        let mut draw = || mix(&mut state) as u32;
        Ids { number, counter: draw(), factor: draw() | 1, flip: draw(), transactions: draw() }
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

    /// The high half of the transaction ids of what connections begin. The low half is the connection's id.
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
    fn all_ids_come_up_before_one_comes_again() {
        let mut ids = Ids::new(0xabc, 7);
        let all: BTreeSet<u32> = (0..COUNT).map(|_| ids.next()).collect();
        assert_eq!(all.len(), COUNT);
        assert!(all.iter().all(|id| id >> COUNTER_BITS == 0xabc));
    }

    #[test]
    fn seeds_make_other_ids() {
        let first = |seed| {
            let mut ids = Ids::new(1, seed);
            [ids.next(), ids.next(), ids.next()]
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
        let [a, b, c] = first(3);
        assert_ne!(b.wrapping_sub(a), c.wrapping_sub(b).wrapping_add(1), "no plain counting");
    }

    #[test]
    fn the_number_changes_for_ids_to_come() {
        let mut ids = Ids::new(1, 1);
        ids.set_number(4095);
        assert_eq!(ids.next() >> COUNTER_BITS, 4095);
        assert_eq!(ids.transactions() as u32, 0);
    }
}

//! A small generator of pseudo-random numbers whose sequence never changes: a seed that showed a failure
//! replays it on every machine and in every release.
//!
//! xoshiro256** (Blackman and Vigna, 2018) makes the numbers; SplitMix64 (Steele, Lea and Flood, 2014)
//! spreads a seed over its state. The numbers are fast and well distributed, but predictable: not for keys.

use core::ops::RangeInclusive;

/// A generator. Two with the same seed give the same numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The generator of `seed`. Every seed is good, including zero.
    pub fn new(seed: u64) -> Rng {
        let mut walk = seed;
        Rng { state: core::array::from_fn(|_| split_mix(&mut walk)) }
    }

    /// Generator number `index` of the family of `seed`. The members are independent of each other, and each
    /// can be made without the ones before it.
    pub fn for_index(seed: u64, index: u64) -> Rng {
        let mut walk = seed;
        let base = split_mix(&mut walk);
        Rng::new(base ^ scramble(index))
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `bound`, each equally likely.
    ///
    /// # Panics
    /// If `bound` is zero: there is no such number.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number lies below zero");
        // The high half of a product is evenly distributed except for the first few low halves; those are
        // drawn again (Lemire, 2019).
        let uneven = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= uneven {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number of the range, both ends included, each equally likely.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn range(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        assert!(low <= high, "no number lies in an empty range");
        match (high - low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next_u64(),
        }
    }

    /// True with the given probability. Below zero and NaN act as zero, above one as one. Always uses one
    /// number.
    pub fn chance(&mut self, probability: f64) -> bool {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        let unit = (self.next_u64() >> 11) as f64 * STEP;
        unit < probability
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }
}

/// One step of SplitMix64.
fn split_mix(walk: &mut u64) -> u64 {
    *walk = walk.wrapping_add(0x9e37_79b9_7f4a_7c15);
    scramble(*walk)
}

/// The output function of SplitMix64: a bijection that depends on every input bit.
fn scramble(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_follows_its_reference() {
        let mut walk = 1_234_567;
        let first: Vec<u64> = (0..5).map(|_| split_mix(&mut walk)).collect();
        assert_eq!(
            first,
            [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,]
        );
    }

    #[test]
    fn xoshiro_follows_its_reference() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [11520, 0, 1509978240, 1215971899390074240]);
    }

    #[test]
    fn below_covers_evenly_and_never_reaches_the_bound() {
        let mut rng = Rng::new(3);
        let mut seen = [0u32; 6];
        for _ in 0..60_000 {
            seen[rng.below(6) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
        assert_eq!(rng.below(1), 0);
        let huge = (1 << 63) + 1;
        assert!((0..1000).all(|_| rng.below(huge) < huge));
    }

    #[test]
    fn range_includes_both_ends() {
        let mut rng = Rng::new(4);
        let drawn: Vec<u64> = (0..200).map(|_| rng.range(7..=9)).collect();
        assert!([7, 8, 9].iter().all(|n| drawn.contains(n)));
        assert!(drawn.iter().all(|n| (7..=9).contains(n)));
        assert_eq!(rng.range(5..=5), 5);
        let all: Vec<u64> = (0..64).map(|_| rng.range(0..=u64::MAX)).collect();
        assert!(all.iter().any(|n| *n > u64::MAX / 2) && all.iter().any(|n| *n < u64::MAX / 2));
    }

    #[test]
    fn chance_holds_at_the_edges() {
        let mut rng = Rng::new(5);
        assert!((0..1000).all(|_| rng.chance(1.0) && rng.chance(2.0)));
        assert!((0..1000).all(|_| !rng.chance(0.0) && !rng.chance(-1.0) && !rng.chance(f64::NAN)));
    }

    #[test]
    fn members_of_a_family_differ() {
        let mut first: Vec<u64> =
            (0..1000).flat_map(|k| [Rng::for_index(1, k).next_u64(), Rng::for_index(2, k).next_u64()]).collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 2000);
    }

    #[test]
    fn fill_reaches_every_byte() {
        let mut rng = Rng::new(6);
        let mut reached = [false; 13];
        for _ in 0..64 {
            let mut bytes = [0; 13];
            rng.fill(&mut bytes);
            for (reached, byte) in reached.iter_mut().zip(bytes) {
                *reached |= byte != 0;
            }
        }
        assert_eq!(reached, [true; 13]);
    }
}

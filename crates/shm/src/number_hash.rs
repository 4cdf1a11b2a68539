//! A hash for small numbers that a peer chooses: one multiplication by a factor that the peer does not know.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes the hashers of one map.
#[derive(Clone, Debug)]
pub(crate) struct NumberHash {
    factor: u64,
}

impl Default for NumberHash {
    fn default() -> NumberHash {
        NumberHash { factor: RandomState::new().hash_one(0) | 1 }
    }
}

impl BuildHasher for NumberHash {
    type Hasher = NumberHasher;

    fn build_hasher(&self) -> NumberHasher {
        NumberHasher { factor: self.factor, hash: 0 }
    }
}

/// Hashes one number.
pub(crate) struct NumberHasher {
    factor: u64,
    hash: u64,
}

impl Hasher for NumberHasher {
    #[inline]
    fn write_u32(&mut self, number: u32) {
        // The upper half of the product depends on all bits of the number, the lower half on few; maps use
        // both ends.
        let product = u64::from(number).wrapping_add(self.hash).wrapping_mul(self.factor);
        self.hash = product ^ product >> 32;
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.hash
    }
}

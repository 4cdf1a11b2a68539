//! The description of keys for peers on the same host, so that they can use the keys themselves.
//!
//! Plain values: they travel through memory that both processes map, and a reader checks them before it
//! relies on them.

use transport::{Access, PdId};
use wire::{Qpn, RKey};

/// The number of values of twelve bits, half a handle.
const HALF_VALUES: usize = 1 << 12;
const HALF_MASK: u32 = HALF_VALUES as u32 - 1;
const SLOT_MASK: u32 = crate::keys::MAX_SLOTS - 1;

/// The place of a key's memory in an object that peers can map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ObjectPlace {
    /// The object's number, unique within the owner's process and never used again.
    pub object: u32,
    /// The offset in the object of byte `skip_front` of the key's range, the first byte that is in the
    /// object.
    pub offset: u64,
    /// The number of bytes at the beginning of the key's range that are not in the object.
    pub skip_front: u64,
    /// The number of bytes at its end that are not in the object.
    pub skip_back: u64,
}

/// A peer's knowledge of a live key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedKey {
    /// The key.
    pub rkey: RKey,
    /// The protection domain: the owner's queue pairs in it serve the key.
    pub pd: PdId,
    /// The operations that are allowed.
    pub access: Access,
    /// For a type 2 window the only queue pair of the owner that serves the key.
    pub only: Option<Qpn>,
    /// The number of the first byte in peers' requests.
    pub base: u64,
    /// The length in bytes.
    pub len_bytes: u64,
    /// The address of the first byte in the owner's process.
    pub start: u64,
    /// The place of the bytes, if they can be mapped.
    pub place: Option<ObjectPlace>,
}

/// The secret that leads from a remote key to its slot, for peers that may reach the memory anyway. Any
/// contents are valid: every key leads to some slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct RemoteKeys {
    /// Factor and summand of the first and the fourth round.
    pub(crate) first: [u64; 2],
    pub(crate) fourth: [u64; 2],
    /// The tables of the rounds between.
    pub(crate) second: [u16; HALF_VALUES],
    pub(crate) third: [u16; HALF_VALUES],
}

impl RemoteKeys {
    /// The length in words of 64 bits.
    pub const WORDS: usize = size_of::<RemoteKeys>() / 8;

    /// The slot that a key belongs to, less than 2^20.
    #[inline]
    pub fn slot(&self, rkey: RKey) -> u32 {
        let handle = rkey.0 >> 8;
        let (mut left, mut right) = (handle >> 12 & HALF_MASK, handle & HALF_MASK);
        right ^= affine(self.fourth, left);
        left ^= table(&self.third, right);
        right ^= table(&self.second, left);
        left ^= affine(self.first, right);
        (left << 12 | right) & SLOT_MASK
    }

    /// The contents as words, for example to store in shared memory.
    pub fn to_words(&self) -> Box<[u64]> {
        let tables = self.second.chunks_exact(4).chain(self.third.chunks_exact(4));
        let packed = tables.map(|four| four.iter().rev().fold(0, |word, value| word << 16 | u64::from(*value)));
        self.first.into_iter().chain(self.fourth).chain(packed).collect()
    }

    /// From words; `None` unless there are [`WORDS`](RemoteKeys::WORDS) of them.
    pub fn from_words(words: &[u64]) -> Option<Box<RemoteKeys>> {
        if words.len() != RemoteKeys::WORDS {
            return None;
        }
        let (rounds, tables) = words.split_at(4);
        let (second, third) = tables.split_at(tables.len() / 2);
        let unpack = |words: &[u64]| core::array::from_fn(|i| (words[i / 4] >> (16 * (i % 4))) as u16);
        let (first, fourth) = ([rounds[0], rounds[1]], [rounds[2], rounds[3]]);
        Some(Box::new(RemoteKeys { first, fourth, second: unpack(second), third: unpack(third) }))
    }
}

/// The high bits of `a x + b`, as in [`keys`](crate::keys).
#[inline(always)]
fn affine([a, b]: [u64; 2], x: u32) -> u32 {
    (a.wrapping_mul(u64::from(x)).wrapping_add(b) >> 52) as u32
}

/// The table's value; only its low twelve bits count.
#[inline(always)]
fn table(values: &[u16; HALF_VALUES], at: u32) -> u32 {
    u32::from(values[(at & HALF_MASK) as usize]) & HALF_MASK
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{Keys, Life};
    use crate::secret::SecretStream;

    #[test]
    fn a_peer_finds_the_slot_of_every_key() {
        let mut stream = SecretStream::new([3; 8]);
        let keys = Keys::new(&mut stream);
        let remote = keys.to_remote();
        let copy = RemoteKeys::from_words(&remote.to_words()).expect("as many words");
        assert_eq!(*copy, remote);
        for slot in (0..1 << 20).step_by(997) {
            let mut life = Life::new(&mut stream);
            life.advance();
            let Some((_, rkey)) = keys.make(slot, &life) else { continue };
            assert_eq!(copy.slot(rkey), slot);
            assert_eq!(keys.remote_slot(rkey), slot);
        }
    }

    #[test]
    fn any_words_lead_to_some_slot() {
        let keys = RemoteKeys::from_words(&[u64::MAX; RemoteKeys::WORDS]).expect("as many words");
        for key in [0, 1, u32::MAX, 0x1234_5678] {
            assert!(keys.slot(RKey(key)) <= SLOT_MASK);
        }
        assert!(RemoteKeys::from_words(&[0; 5]).is_none());
    }
}

//! Keys: how a slot of the table becomes a number that tells nothing about it.
//!
//! A slot (20 bits) and its generation (4 bits) are permuted secretly into the
//! key's high 24 bits, the handle; eight bits of tag follow. lkeys and rkeys have
//! permutations of their own, so neither leads to the other.
//!
//! The permutation is a Feistel network of four rounds after Naor and Reingold
//! (1999): pairwise independent functions outside, random functions inside, here
//! tables filled from the secret. That is as hard to tell from a random permutation
//! as a small block allows, and an inverse costs two multiplications and two loads.
//!
//! A key is dead when its entry holds another. It comes back to life at the
//! earliest when its slot has been used 4096 times: sixteen generations, and for
//! each the tag walks through all 256 values.

use transport::LKey;
use wire::RKey;

use crate::secret::SecretStream;
use crate::shared::RemoteKeys;

/// Bits of a slot number.
const SLOT_BITS: u32 = 20;
/// Slots that can be told apart.
pub(crate) const MAX_SLOTS: u32 = 1 << SLOT_BITS;
/// Generations that can be told apart.
const GENERATIONS: u32 = 16;
/// Half a handle.
const HALF_BITS: u32 = 12;
const HALF_VALUES: usize = 1 << HALF_BITS;
const HALF_MASK: u32 = HALF_VALUES as u32 - 1;

/// The secrets of both kinds of keys.
pub(crate) struct Keys {
    local: Permutation,
    remote: Permutation,
}

impl Keys {
    pub(crate) fn new(stream: &mut SecretStream) -> Keys {
        Keys { local: Permutation::new(stream), remote: Permutation::new(stream) }
    }

    /// The keys of a slot in its present life, or nothing if this life must be skipped:
    /// a handle of zero is never given out, so that zero is no key.
    pub(crate) fn make(&self, slot: u32, life: &Life) -> Option<(LKey, RKey)> {
        let name = (life.count % GENERATIONS) << SLOT_BITS | slot;
        let (local, remote) = (self.local.forward(name), self.remote.forward(name));
        let join = |handle: u32, tag: &Tag| handle << 8 | u32::from(tag.value);
        (local != 0 && remote != 0).then(|| (LKey(join(local, &life.local_tag)), RKey(join(remote, &life.remote_tag))))
    }

    /// What finds the slots of rkeys, for peers.
    pub(crate) fn to_remote(&self) -> RemoteKeys {
        let Permutation { first, second, third, fourth } = &self.remote;
        let (first, fourth) = ([first.a, first.b], [fourth.a, fourth.b]);
        RemoteKeys { first, fourth, second: **second, third: **third }
    }

    /// The slot that an lkey would belong to. Any number names one.
    #[inline(always)]
    pub(crate) fn local_slot(&self, key: LKey) -> u32 {
        self.local.backward(key.0 >> 8) & (MAX_SLOTS - 1)
    }

    /// The slot that an rkey would belong to. Any number names one.
    #[inline(always)]
    pub(crate) fn remote_slot(&self, key: RKey) -> u32 {
        self.remote.backward(key.0 >> 8) & (MAX_SLOTS - 1)
    }
}

/// How often a slot has been used, which decides its keys.
#[derive(Clone)]
pub(crate) struct Life {
    count: u32,
    local_tag: Tag,
    remote_tag: Tag,
}

impl Life {
    /// The first life of a slot.
    pub(crate) fn new(stream: &mut SecretStream) -> Life {
        Life { count: stream.next_u32() % GENERATIONS, local_tag: Tag::new(stream), remote_tag: Tag::new(stream) }
    }

    /// The next one.
    pub(crate) fn advance(&mut self) {
        self.count = self.count.wrapping_add(1);
        if self.count.is_multiple_of(GENERATIONS) {
            self.local_tag.advance();
            self.remote_tag.advance();
        }
    }
}

/// A walk through all 256 values in an order of its own: a linear congruence whose
/// multiplier is one more than a multiple of four and whose increment is odd has full
/// period (Hull and Dobell, 1962).
#[derive(Clone)]
struct Tag {
    value: u8,
    multiplier: u8,
    increment: u8,
}

impl Tag {
    fn new(stream: &mut SecretStream) -> Tag {
        let [value, multiplier, increment, _] = stream.next_u32().to_le_bytes();
        Tag { value, multiplier: multiplier & !3 | 1, increment: increment | 1 }
    }

    fn advance(&mut self) {
        let product = self.value.wrapping_mul(self.multiplier);
        self.value = product.wrapping_add(self.increment);
    }
}

/// A secret permutation of 24 bits.
struct Permutation {
    first: Affine,
    second: Box<[u16; HALF_VALUES]>,
    third: Box<[u16; HALF_VALUES]>,
    fourth: Affine,
}

impl Permutation {
    fn new(stream: &mut SecretStream) -> Permutation {
        Permutation {
            first: Affine::new(stream),
            second: random_function(stream),
            third: random_function(stream),
            fourth: Affine::new(stream),
        }
    }

    fn forward(&self, name: u32) -> u32 {
        let (mut left, mut right) = (name >> HALF_BITS & HALF_MASK, name & HALF_MASK);
        left ^= self.first.at(right);
        right ^= u32::from(self.second[left as usize]);
        left ^= u32::from(self.third[right as usize]);
        right ^= self.fourth.at(left);
        left << HALF_BITS | right
    }

    #[inline(always)]
    fn backward(&self, handle: u32) -> u32 {
        let (mut left, mut right) = (handle >> HALF_BITS & HALF_MASK, handle & HALF_MASK);
        right ^= self.fourth.at(left);
        left ^= u32::from(self.third[right as usize & (HALF_VALUES - 1)]);
        right ^= u32::from(self.second[left as usize & (HALF_VALUES - 1)]);
        left ^= self.first.at(right);
        left << HALF_BITS | right
    }
}

/// A function of 12 bits whose values at any two places are independent: the high
/// bits of `a x + b` (Dietzfelbinger, 1996).
struct Affine {
    a: u64,
    b: u64,
}

impl Affine {
    fn new(stream: &mut SecretStream) -> Affine {
        Affine { a: stream.next_u64(), b: stream.next_u64() }
    }

    #[inline(always)]
    fn at(&self, x: u32) -> u32 {
        let value = self.a.wrapping_mul(u64::from(x)).wrapping_add(self.b);
        (value >> (64 - HALF_BITS)) as u32
    }
}

fn random_function(stream: &mut SecretStream) -> Box<[u16; HALF_VALUES]> {
    let mut table = Box::new([0; HALF_VALUES]);
    for value in table.iter_mut() {
        *value = (stream.next_u32() & HALF_MASK) as u16;
    }
    table
}

#[cfg(test)]
mod tests;

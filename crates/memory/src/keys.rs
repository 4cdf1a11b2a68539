//! Keys: the number for a slot of the table, which reveals nothing about the slot.
//!
//! A secret permutation maps a slot (20 bits) and its generation (4 bits) to the key's high 24 bits, the
//! handle. The low eight bits are a tag. lkeys and rkeys have separate permutations, so neither leads to the
//! other.
//!
//! The permutation is a Feistel network of four rounds after Naor and Reingold (1999). The outer rounds use
//! pairwise independent functions, the inner ones random functions, here tables filled from the secret. It is
//! as hard to distinguish from a random permutation as a small block allows. An inverse costs two
//! multiplications and two loads.
//!
//! A key is dead when its entry holds another key. It becomes valid again after 4096 uses of its slot at the
//! earliest: for each of the sixteen generations the tag takes all 256 values.

use transport::LKey;
use wire::RKey;

use crate::secret::SecretStream;
use crate::shared::RemoteKeys;

/// The width of a slot number.
const SLOT_BITS: u32 = 20;
/// The number of slots.
pub(crate) const MAX_SLOTS: u32 = 1 << SLOT_BITS;
/// The number of generations of a slot.
const GENERATIONS: u32 = 16;
/// The width of half a handle.
const HALF_BITS: u32 = 12;
const HALF_VALUES: usize = 1 << HALF_BITS;
const HALF_MASK: u32 = HALF_VALUES as u32 - 1;

/// The secret permutations of lkeys and rkeys.
pub(crate) struct Keys {
    local: Permutation,
    remote: Permutation,
}

impl Keys {
    pub(crate) fn new(stream: &mut SecretStream) -> Keys {
        Keys { local: Permutation::new(stream), remote: Permutation::new(stream) }
    }

    /// The keys of a slot in its present life, or `None` if this life must be skipped: a handle of zero is
    /// never given out, so that zero is not a key.
    pub(crate) fn make(&self, slot: u32, life: &Life) -> Option<(LKey, RKey)> {
        let name = (life.count % GENERATIONS) << SLOT_BITS | slot;
        let (local, remote) = (self.local.forward(name), self.remote.forward(name));
        let join = |handle: u32, tag: &Tag| handle << 8 | u32::from(tag.value);
        (local != 0 && remote != 0).then(|| (LKey(join(local, &life.local_tag)), RKey(join(remote, &life.remote_tag))))
    }

    /// The permutation that leads from rkeys to slots, for peers.
    pub(crate) fn to_remote(&self) -> RemoteKeys {
        let Permutation { first, second, third, fourth } = &self.remote;
        let (first, fourth) = ([first.a, first.b], [fourth.a, fourth.b]);
        RemoteKeys { first, fourth, second: **second, third: **third }
    }

    /// The slot that an lkey would belong to. Every number leads to a slot.
    #[inline(always)]
    pub(crate) fn local_slot(&self, key: LKey) -> u32 {
        self.local.backward(key.0 >> 8) & (MAX_SLOTS - 1)
    }

    /// The slot that an rkey would belong to. Every number leads to a slot.
    #[inline(always)]
    pub(crate) fn remote_slot(&self, key: RKey) -> u32 {
        self.remote.backward(key.0 >> 8) & (MAX_SLOTS - 1)
    }
}

/// The number of uses of a slot, which determines its keys.
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

    /// Moves on to the next life.
    pub(crate) fn advance(&mut self) {
        self.count = self.count.wrapping_add(1);
        if self.count.is_multiple_of(GENERATIONS) {
            self.local_tag.advance();
            self.remote_tag.advance();
        }
    }
}

/// A walk through all 256 values in a secret order. A linear congruence has full period if its multiplier is
/// one more than a multiple of four and its increment is odd (Hull, Dobell 1962).
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

/// A function of 12 bits whose values at any two arguments are independent: the high bits of `a x + b`
/// (Dietzfelbinger, 1996).
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

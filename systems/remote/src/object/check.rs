//! Checks against torn reads, as type parameters.

use std::ops::Range;

use crate::memory::WordMemory;
use crate::object::header::ObjectHeader;
use crate::object::mix::mixed;

/// The longest key in bytes.
pub const MAX_KEY_BYTES: usize = 64 << 10;
/// The longest value in bytes: 512 MiB, and a line for what a system above puts before it.
pub const MAX_VALUE_BYTES: usize = (512 << 20) + 64;

/// The pieces that a READ copies whole. Its pieces may be copied in any order, and at any time of the READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadGrain {
    /// Words of 8 bytes at multiples of 8. Longarm's own responder promises no more.
    Word,
    /// Lines of 64 bytes at multiples of 64, as network cards copy them on many machines.
    Line,
    /// Objects of up to 16 KiB: the responder copies each at one moment (`QueuePair::read_object`).
    Object,
}

/// Numbers that an object's check covers besides its bytes: the secret of its table, and its place. So old bytes in
/// another place, or the copy of an object inside a value, never look like an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal(u64);

impl Seal {
    /// The seal of the object at `offset` of a table.
    pub fn new(salt: u64, offset: u64) -> Seal {
        Seal(mixed(salt ^ mixed(offset.wrapping_add(1))))
    }

    /// A word that follows from the seal and another word.
    pub(crate) fn over(self, word: u64) -> u64 {
        mixed(self.0 ^ mixed(word))
    }
}

/// A whole object, as it was at one moment of the READ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenObject {
    /// The first word.
    pub header: ObjectHeader,
    /// The place of the key in the [content](TornCheck::content).
    pub key: Range<usize>,
    /// The place of the value there.
    pub value: Range<usize>,
}

/// The reason why bytes are no whole object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unopened {
    /// A writer was in between, or these bytes never were an object.
    Torn,
    /// The header says that the object is not live, whatever the other bytes are.
    NotLive(ObjectHeader),
    /// The object says that it has so many bytes, more than were read.
    Longer(u64),
}

/// A check that tells whether the bytes of a READ are a whole object.
///
/// An object begins with its [header](ObjectHeader). The writer changes the rest while the header is locked or not live, and
/// stores the header last.
pub trait TornCheck: Copy + Default + Send + Sync + 'static {
    /// Its number in root records.
    const CODE: u8;
    /// Its name.
    const NAME: &'static str;
    /// The coarsest assumption that it makes about READs.
    const NEEDS: ReadGrain;
    /// True if a peer may change objects with lock, WRITE and unlock. WRITEs, too, have no order inside.
    const PEERS_MAY_WRITE: bool;

    /// Bytes of an object whose key and value have these lengths.
    fn object_bytes(key_bytes: u64, value_bytes: u64) -> u64;

    /// The bytes of an object, its header first. `image` is replaced.
    fn encode(seal: Seal, header: ObjectHeader, key: &[u8], value: &[u8], image: &mut Vec<u8>);

    /// Stores an image at `at`, but for its first word.
    fn store_body<M: WordMemory>(memory: &M, at: u64, image: &[u8]);

    /// Opens the bytes of a READ. Checks whose values are not in one piece copy them to `scratch`.
    ///
    /// # Errors
    /// If the bytes are no whole live object.
    fn open(seal: Seal, bytes: &[u8], scratch: &mut Vec<u8>) -> Result<OpenObject, Unopened>;

    /// The bytes that an opened object's places mean: those of the READ, unless the check copies them.
    fn content<'a>(bytes: &'a [u8], scratch: &'a [u8]) -> &'a [u8] {
        let _ = scratch;
        bytes
    }

    /// The lengths of key and value of the owner's object at `at`, if a block of `block_bytes` can hold it. The third word
    /// of every object has them.
    fn lengths<M: WordMemory>(memory: &M, at: u64, block_bytes: u64) -> Option<(u64, u64)> {
        let (key_bytes, value_bytes) = lengths_of(memory.load(at + 16))?;
        (Self::object_bytes(key_bytes, value_bytes) <= block_bytes).then_some((key_bytes, value_bytes))
    }

    /// Copies from the owner's object at `at`: key and value in one piece, from `from` on.
    fn copy_content<M: WordMemory>(memory: &M, at: u64, from: u64, out: &mut Vec<u8>, len_bytes: u64);
}

/// The word with both lengths.
pub(crate) fn lengths_word(key_bytes: usize, value_bytes: usize) -> u64 {
    (key_bytes as u64) << 32 | value_bytes as u64
}

/// Both lengths; `None` if no object has them.
pub(crate) fn lengths_of(word: u64) -> Option<(u64, u64)> {
    let (key_bytes, value_bytes) = (word >> 32, word & 0xffff_ffff);
    let fits = key_bytes <= MAX_KEY_BYTES as u64 && value_bytes <= MAX_VALUE_BYTES as u64;
    fits.then_some((key_bytes, value_bytes))
}

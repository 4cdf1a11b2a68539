//! READs of objects at one moment, so that readers need no checksum. (Daglis, Ustiugov, Novaković, Bugnion, Falsafi, Grot:
//! "SABRes: Atomic Object Reads for In-Memory Rack-Scale Computing", MICRO 2016.)
//!
//! ```text
//!  0        8      16            20           24
//! | header | mark | value bytes | key bytes  | key | value
//! ```
//! The responder copies an object while its header stays the same and unlocked, or says that a writer has it. The mark follows
//! from version, incarnation, place and the table's secret, so old bytes in another place are no object. Such READs have 16 KiB
//! at most. A longer object has the CRC64 of [`Crc64`] as its mark, and plain READs bring it.

use std::sync::atomic::{Ordering, fence};

use crate::memory::{WordMemory, word_at};
use crate::object::check::{OpenObject, ReadGrain, Seal, TornCheck, Unopened, lengths_of};
use crate::object::crc::Crc64;
use crate::object::header::{ObjectHeader, ObjectState};

/// The longest object that one READ copies at one moment.
pub(crate) const ATOMIC_BYTES: u64 = 16 << 10;
/// Bits of a header that say that a writer has the object.
pub(crate) const LOCK_MASK: u64 = 0xffff << 48;
const HEAD_BYTES: u64 = 24;

/// The check by READs of objects at one moment. Connections have them between Longarm's devices only, and readers elsewhere are refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct AtomicReads;

impl TornCheck for AtomicReads {
    const CODE: u8 = 3;
    const NAME: &'static str = "atomic-reads";
    const NEEDS: ReadGrain = ReadGrain::Object;
    const PEERS_MAY_WRITE: bool = false;

    fn object_bytes(key_bytes: u64, value_bytes: u64) -> u64 {
        HEAD_BYTES + key_bytes + value_bytes
    }

    fn encode(seal: Seal, header: ObjectHeader, key: &[u8], value: &[u8], image: &mut Vec<u8>) {
        Crc64::encode(seal, header, key, value, image);
        if image.len() as u64 <= ATOMIC_BYTES {
            image[8..16].copy_from_slice(&seal.over(header.covered()).to_le_bytes());
        }
    }

    fn store_body<M: WordMemory>(memory: &M, at: u64, image: &[u8]) {
        // No reader sees the new bytes without the lock, or the state, that was stored before.
        fence(Ordering::SeqCst);
        memory.copy_in(at + 8, &image[8..]);
    }

    fn open(seal: Seal, bytes: &[u8], scratch: &mut Vec<u8>) -> Result<OpenObject, Unopened> {
        let header = ObjectHeader::from_word(word_at(bytes, 0));
        if header.state() != ObjectState::Live {
            return Err(Unopened::NotLive(header));
        }
        // A header alone is the responder's word that a writer has the object.
        let lengths = bytes.get(16..24).map(|_| word_at(bytes, 16)).ok_or(Unopened::Torn)?;
        let (key_bytes, value_bytes) = lengths_of(lengths).ok_or(Unopened::Torn)?;
        let object_bytes = AtomicReads::object_bytes(key_bytes, value_bytes);
        if object_bytes > ATOMIC_BYTES {
            return Crc64::open(seal, bytes, scratch);
        }
        // A longer READ was none at one moment.
        let is_atomic = bytes.len() as u64 <= ATOMIC_BYTES && header.holder() == 0;
        if !is_atomic || word_at(bytes, 8) != seal.over(header.covered()) {
            return Err(Unopened::Torn);
        }
        if object_bytes > bytes.len() as u64 {
            return Err(Unopened::Longer(object_bytes));
        }
        let value_at = (HEAD_BYTES + key_bytes) as usize;
        Ok(OpenObject { header, key: HEAD_BYTES as usize..value_at, value: value_at..object_bytes as usize })
    }

    fn copy_content<M: WordMemory>(memory: &M, at: u64, from: u64, out: &mut Vec<u8>, len_bytes: u64) {
        Crc64::copy_content(memory, at, from, out, len_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(header: ObjectHeader, value: &[u8]) -> Vec<u8> {
        let mut image = Vec::new();
        AtomicReads::encode(Seal::new(1, 64), header, b"key", value, &mut image);
        image
    }

    fn open(offset: u64, bytes: &[u8]) -> Result<usize, Unopened> {
        AtomicReads::open(Seal::new(1, offset), bytes, &mut Vec::new()).map(|object| object.value.len())
    }

    #[test]
    fn an_object_opens_in_its_place_and_without_a_lock() {
        let header = ObjectHeader::new(ObjectState::Live, 3, 7);
        let bytes = image(header, &[1; 100]);
        assert_eq!((open(64, &bytes), open(128, &bytes)), (Ok(100), Err(Unopened::Torn)));
        let mut locked = bytes.clone();
        locked[..8].copy_from_slice(&header.held_by(5).word().to_le_bytes());
        assert_eq!(open(64, &locked), Err(Unopened::Torn));
        assert_eq!(header.held_by(5).word() & LOCK_MASK, 5 << 48);
        let dead = header.with_state(ObjectState::Dead);
        locked[..8].copy_from_slice(&dead.word().to_le_bytes());
        assert_eq!(open(64, &locked), Err(Unopened::NotLive(dead)));
        assert_eq!(open(64, &bytes[..64]), Err(Unopened::Longer(127)));
        for len in 0..24 {
            assert!(open(64, &bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn long_objects_have_a_checksum_and_short_ones_in_long_reads_are_not_taken() {
        let header = ObjectHeader::new(ObjectState::Live, 3, 7);
        let long = image(header, &[1; 20_000]);
        assert_eq!((open(64, &long), open(64, &long[..16 << 10])), (Ok(20_000), Err(Unopened::Longer(20_027))));
        let mut torn = long.clone();
        torn[10_000] = 2;
        assert_eq!(open(64, &torn), Err(Unopened::Torn));
        let mut short = image(header, &[1; 100]);
        short.resize((16 << 10) + 8, 0);
        assert_eq!((open(64, &short), open(64, &short[..16 << 10])), (Err(Unopened::Torn), Ok(100)));
    }
}

//! CRC64 over key and value. (Mitchell, Geng, Li: "Using One-Sided RDMA Reads to Build a Fast, CPU-Efficient Key-Value
//! Store", USENIX ATC 2013, section 3.2: Pilaf.)
//!
//! ```text
//!  0        8      16            20           24
//! | header | CRC64 | value bytes | key bytes  | key | value
//! ```
//! The check holds whatever a READ copies in which order and in which pieces: bytes of two moments fail it with a probability of
//! 1 - 2^-64. A writer that stands still leaves readers of this object waiting, and of no other.

use crate::memory::{WordMemory, word_at};
use crate::object::check::{OpenObject, ReadGrain, Seal, TornCheck, Unopened, lengths_of, lengths_word};
use crate::object::header::{ObjectHeader, ObjectState};

const HEAD_BYTES: usize = 24;

/// The check by CRC64/NVME over lengths, key and value, mixed with version, incarnation, place and the table's secret.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crc64;

/// The checksum of what follows the first two words.
fn sum(seal: Seal, header: ObjectHeader, rest: &[u8]) -> u64 {
    crc_fast::crc64_nvme(rest) ^ seal.over(header.covered())
}

impl TornCheck for Crc64 {
    const CODE: u8 = 1;
    const NAME: &'static str = "crc64";
    const NEEDS: ReadGrain = ReadGrain::Word;
    const PEERS_MAY_WRITE: bool = true;

    fn object_bytes(key_bytes: u64, value_bytes: u64) -> u64 {
        HEAD_BYTES as u64 + key_bytes + value_bytes
    }

    fn encode(seal: Seal, header: ObjectHeader, key: &[u8], value: &[u8], image: &mut Vec<u8>) {
        image.clear();
        image.extend_from_slice(&header.word().to_le_bytes());
        image.extend_from_slice(&[0; 8]);
        image.extend_from_slice(&lengths_word(key.len(), value.len()).to_le_bytes());
        image.extend_from_slice(key);
        image.extend_from_slice(value);
        let sum = sum(seal, header, &image[16..]);
        image[8..16].copy_from_slice(&sum.to_le_bytes());
    }

    fn store_body<M: WordMemory>(memory: &M, at: u64, image: &[u8]) {
        memory.copy_in(at + 8, &image[8..]);
    }

    fn open(seal: Seal, bytes: &[u8], _: &mut Vec<u8>) -> Result<OpenObject, Unopened> {
        let header = ObjectHeader::from_word(word_at(bytes, 0));
        if header.state() != ObjectState::Live {
            return Err(Unopened::NotLive(header));
        }
        let (key_bytes, value_bytes) = lengths_of(word_at(bytes, 16)).ok_or(Unopened::Torn)?;
        let object_bytes = Crc64::object_bytes(key_bytes, value_bytes);
        let Some(rest) = bytes.get(16..object_bytes as usize) else {
            return Err(Unopened::Longer(object_bytes));
        };
        if word_at(bytes, 8) != sum(seal, header, rest) {
            return Err(Unopened::Torn);
        }
        let value_at = HEAD_BYTES + key_bytes as usize;
        Ok(OpenObject { header, key: HEAD_BYTES..value_at, value: value_at..object_bytes as usize })
    }

    fn copy_content<M: WordMemory>(memory: &M, at: u64, from: u64, out: &mut Vec<u8>, len_bytes: u64) {
        // Copies begin at words: the bytes before `from` in its word are cut off again.
        let before = from % 8;
        let start = out.len();
        out.resize(start + (before + len_bytes) as usize, 0);
        memory.copy_out(at + HEAD_BYTES as u64 + from - before, &mut out[start..]);
        out.drain(start..start + before as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(header: ObjectHeader, key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut image = Vec::new();
        Crc64::encode(Seal::new(1, 64), header, key, value, &mut image);
        image
    }

    #[test]
    fn an_object_opens_and_no_mixture_does() {
        let header = ObjectHeader::new(ObjectState::Live, 3, 7);
        let (old, new) = (image(header, b"key", &[1; 100]), image(header.next(), b"key", &[2; 100]));
        let (seal, mut scratch) = (Seal::new(1, 64), Vec::new());
        let opened = Crc64::open(seal, &old, &mut scratch).unwrap();
        assert_eq!((&old[opened.key], &old[opened.value], opened.header), (&b"key"[..], &[1; 100][..], header));
        for words in 1_u32..1 << 12 {
            let mut mixture = old.clone();
            for (number, word) in
                mixture.chunks_mut(8).enumerate().filter(|(number, _)| words >> (number % 12) & 1 == 1)
            {
                word.copy_from_slice(&new[number * 8..][..word.len()]);
            }
            let whole = mixture == new;
            assert_eq!(Crc64::open(seal, &mixture, &mut Vec::new()).is_ok(), whole, "{words:b}");
        }
    }

    #[test]
    fn a_lock_leaves_it_whole_and_another_place_or_table_does_not() {
        let header = ObjectHeader::new(ObjectState::Live, 3, 7);
        let mut bytes = image(header, b"k", b"v");
        bytes[..8].copy_from_slice(&header.held_by(5).word().to_le_bytes());
        let opened = Crc64::open(Seal::new(1, 64), &bytes, &mut Vec::new()).unwrap();
        assert_eq!(&bytes[opened.value], b"v");
        for seal in [Seal::new(1, 128), Seal::new(2, 64)] {
            assert_eq!(Crc64::open(seal, &bytes, &mut Vec::new()), Err(Unopened::Torn));
        }
        let dead = header.with_state(ObjectState::Dead);
        bytes[..8].copy_from_slice(&dead.word().to_le_bytes());
        assert_eq!(Crc64::open(Seal::new(1, 64), &bytes, &mut Vec::new()), Err(Unopened::NotLive(dead)));
    }

    #[test]
    fn short_and_hostile_bytes_are_refused() {
        let header = ObjectHeader::new(ObjectState::Live, 3, 7);
        let mut bytes = image(header, b"key", &[1; 100]);
        let refused = Crc64::open(Seal::new(1, 64), &bytes[..64], &mut Vec::new()).map(|_| ());
        assert_eq!(refused, Err(Unopened::Longer(127)));
        for len in 0..24 {
            assert!(Crc64::open(Seal::new(1, 64), &bytes[..len], &mut Vec::new()).is_err());
        }
        bytes[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Crc64::open(Seal::new(1, 64), &bytes, &mut Vec::new()), Err(Unopened::Torn));
    }
}

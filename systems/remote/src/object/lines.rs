//! A mark in each line of 64 bytes. (Dragojević, Narayanan, Hodson, Castro: "FaRM: Fast Remote Memory", NSDI 2014, section 4.3.)
//!
//! ```text
//!  first line:   | header 8 | mark 8 | value bytes 4, key bytes 4 | content 40 |
//!  other lines:  | mark 8 | content 56 |
//! ```
//! The mark follows from version, incarnation, place and the table's secret. The writer zeroes the mark of a line, changes the
//! line, and stores the new mark. So a line that is read whole is of the version that its mark tells. An object is whole if all
//! marks fit its header.
//!
//! This holds only where a READ copies lines whole. Network cards do on many machines, but no specification promises
//! it, and Longarm's own responder does not. So readers ask for that promise, and refuse the check without it.

use std::sync::atomic::{Ordering, fence};

use crate::memory::{WordMemory, word_at};
use crate::object::check::{OpenObject, ReadGrain, Seal, TornCheck, Unopened, lengths_of, lengths_word};
use crate::object::header::{ObjectHeader, ObjectState};

const LINE: u64 = 64;
const FIRST_CONTENT: u64 = 40;
const OTHER_CONTENT: u64 = 56;

/// The check by marks in lines, for READs that copy lines whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineVersions;

/// Where the mark of a line is.
fn mark_at(line: u64) -> u64 {
    if line == 0 { 8 } else { line * LINE }
}

/// Where the content of a line begins.
fn content_at(line: u64) -> u64 {
    if line == 0 { LINE - FIRST_CONTENT } else { line * LINE + LINE - OTHER_CONTENT }
}

/// The pieces of a content of that length: each one's place in the object.
fn pieces(content_bytes: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
    let mut left = content_bytes;
    (0..lines(content_bytes)).map(move |line| {
        let len_bytes = left.min(if line == 0 { FIRST_CONTENT } else { OTHER_CONTENT });
        left -= len_bytes;
        content_at(line)..content_at(line) + len_bytes
    })
}

fn lines(content_bytes: u64) -> u64 {
    1 + content_bytes.saturating_sub(FIRST_CONTENT).div_ceil(OTHER_CONTENT)
}

impl TornCheck for LineVersions {
    const CODE: u8 = 2;
    const NAME: &'static str = "line-versions";
    const NEEDS: ReadGrain = ReadGrain::Line;
    const PEERS_MAY_WRITE: bool = false;

    fn object_bytes(key_bytes: u64, value_bytes: u64) -> u64 {
        lines(key_bytes + value_bytes) * LINE
    }

    fn encode(seal: Seal, header: ObjectHeader, key: &[u8], value: &[u8], image: &mut Vec<u8>) {
        let content_bytes = (key.len() + value.len()) as u64;
        image.clear();
        image.resize((lines(content_bytes) * LINE) as usize, 0);
        image[..8].copy_from_slice(&header.word().to_le_bytes());
        image[16..24].copy_from_slice(&lengths_word(key.len(), value.len()).to_le_bytes());
        let mark = seal.over(header.covered()).to_le_bytes();
        for line in 0..lines(content_bytes) {
            image[mark_at(line) as usize..][..8].copy_from_slice(&mark);
        }
        let mut content = key.iter().chain(value);
        for piece in pieces(content_bytes) {
            image[piece.start as usize..piece.end as usize]
                .iter_mut()
                .zip(&mut content)
                .for_each(|(to, from)| *to = *from);
        }
    }

    fn store_body<M: WordMemory>(memory: &M, at: u64, image: &[u8]) {
        for line in 0..image.len() as u64 / LINE {
            let (mark_at, end) = (mark_at(line), (line + 1) * LINE);
            memory.store(at + mark_at, 0);
            // No reader sees the new bytes with the old mark.
            fence(Ordering::SeqCst);
            memory.copy_in(at + mark_at + 8, &image[mark_at as usize + 8..end as usize]);
            fence(Ordering::SeqCst);
            memory.store(at + mark_at, word_at(image, mark_at as usize));
        }
    }

    fn open(seal: Seal, bytes: &[u8], scratch: &mut Vec<u8>) -> Result<OpenObject, Unopened> {
        let header = ObjectHeader::from_word(word_at(bytes, 0));
        if header.state() != ObjectState::Live {
            return Err(Unopened::NotLive(header));
        }
        let (key_bytes, value_bytes) = lengths_of(word_at(bytes, 16)).ok_or(Unopened::Torn)?;
        let content_bytes = key_bytes + value_bytes;
        let object_bytes = lines(content_bytes) * LINE;
        if (bytes.len() as u64) < object_bytes {
            return Err(Unopened::Longer(object_bytes));
        }
        let mark = seal.over(header.covered());
        if (0..lines(content_bytes)).any(|line| word_at(bytes, mark_at(line) as usize) != mark) {
            return Err(Unopened::Torn);
        }
        scratch.clear();
        pieces(content_bytes)
            .for_each(|piece| scratch.extend_from_slice(&bytes[piece.start as usize..piece.end as usize]));
        let key_end = key_bytes as usize;
        Ok(OpenObject { header, key: 0..key_end, value: key_end..content_bytes as usize })
    }

    fn content<'a>(_: &'a [u8], scratch: &'a [u8]) -> &'a [u8] {
        scratch
    }

    fn copy_content<M: WordMemory>(memory: &M, at: u64, from: u64, out: &mut Vec<u8>, len_bytes: u64) {
        let mut line = [0; LINE as usize];
        let (mut before, end) = (0, from + len_bytes);
        for (number, piece) in pieces(end).enumerate() {
            let piece_bytes = piece.end - piece.start;
            if before + piece_bytes > from {
                memory.copy_out(at + number as u64 * LINE, &mut line);
                let skipped = from.saturating_sub(before);
                let start = piece.start % LINE;
                out.extend_from_slice(&line[(start + skipped) as usize..(start + piece_bytes) as usize]);
            }
            before += piece_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::PlainMemory;

    #[test]
    fn objects_of_all_lengths_come_back() {
        let (memory, seal) = (PlainMemory::new(4096), Seal::new(1, 0));
        let header = ObjectHeader::new(ObjectState::Live, 1, 1);
        let (mut image, mut scratch) = (Vec::new(), Vec::new());
        for value_bytes in (0..200).chain([1000, 3000]) {
            let value: Vec<u8> = (0..value_bytes).map(|number| number as u8).collect();
            LineVersions::encode(seal, header, b"a key", &value, &mut image);
            assert_eq!(image.len() as u64, LineVersions::object_bytes(5, value_bytes));
            LineVersions::store_body(&memory, 0, &image);
            memory.store(0, header.word());
            let mut bytes = vec![0; image.len()];
            memory.copy_out(0, &mut bytes);
            let opened = LineVersions::open(seal, &bytes, &mut scratch).unwrap();
            assert_eq!((&scratch[opened.key], &scratch[opened.value]), (&b"a key"[..], &value[..]));
            assert_eq!(LineVersions::lengths(&memory, 0, 4096), Some((5, value_bytes)));
            for from in [0, 1, 5, 40, 50] {
                let wanted = (5 + value_bytes).saturating_sub(from);
                let mut content = Vec::new();
                LineVersions::copy_content(&memory, 0, from, &mut content, wanted);
                let all = [b"a key", &value[..]].concat();
                assert!(content == all[(from as usize).min(all.len())..], "{value_bytes} from {from}");
            }
        }
    }

    #[test]
    fn lines_of_two_versions_are_torn() {
        let (seal, header) = (Seal::new(1, 0), ObjectHeader::new(ObjectState::Live, 1, 1));
        let (mut old, mut new) = (Vec::new(), Vec::new());
        LineVersions::encode(seal, header, b"k", &[1; 500], &mut old);
        LineVersions::encode(seal, header.next(), b"k", &[2; 500], &mut new);
        for line in 0..old.len() / 64 {
            let mut mixture = old.clone();
            mixture[line * 64..][..64].copy_from_slice(&new[line * 64..][..64]);
            assert_eq!(LineVersions::open(seal, &mixture, &mut Vec::new()), Err(Unopened::Torn), "{line}");
        }
        assert_eq!(LineVersions::open(seal, &old[..128], &mut Vec::new()), Err(Unopened::Longer(640)));
    }
}

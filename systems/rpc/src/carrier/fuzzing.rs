//! The forms that a hostile peer chooses: headers, metadata, keys, and records in memory that it writes.

use std::cell::RefCell;

use crate::carrier::checked::{check_record, take_checked};
use crate::carrier::record::{Look, record_bytes, take_record};
use crate::frame::{FrameHeader, METADATA, large_key, put_metadata, take_metadata};
use crate::link::PeerArea;
use crate::metadata::Metadata;

/// Keys of large messages lead to no more than this.
const MOST_BYTES: usize = 1 << 20;

/// Decodes `bytes` as a message, as metadata and as a key. All that is understood encodes to the same bytes.
pub(crate) fn headers(bytes: &[u8]) {
    if let Some((header, body)) = FrameHeader::split(bytes) {
        assert_eq!([&header.encode()[..], body].concat(), bytes);
        if let Some((metadata, len_bytes)) = take_metadata(header.flags, body) {
            let mut encoded = Vec::new();
            assert_eq!(
                header.flags & METADATA != 0 && !metadata.is_empty(),
                put_metadata(&metadata, &mut encoded) != 0
            );
            assert!(metadata.is_empty() || body[..len_bytes] == encoded);
        }
    }
    if let Some(metadata) = Metadata::decode(bytes) {
        let mut encoded = Vec::new();
        metadata.encode(&mut encoded);
        assert_eq!((encoded.as_slice(), metadata.encoded_bytes()), (bytes, bytes.len()));
    }
    if let Some(key) = large_key(bytes, MOST_BYTES) {
        assert_eq!(key.to_bytes(), bytes);
        assert!(key.len_bytes() <= MOST_BYTES as u64 && key.addr().checked_add(key.len_bytes()).is_some());
    }
}

/// Looks for records in memory with these contents: of each kind, in places of several lengths.
pub(crate) fn records(bytes: &[u8]) {
    let words = bytes.len() / 8 * 8;
    for room in [32, 64, 256, words].into_iter().filter(|room| (32..=words).contains(room)) {
        let at = (words - room) / 64 * 64;
        look(bytes, at, room);
        look_checked(bytes, at, room);
    }
}

fn look(bytes: &[u8], at: usize, room: usize) {
    let (area, mut body) = (FuzzArea(RefCell::new(bytes.to_vec())), Vec::new());
    let found = take_record(&area, at as u64, room as u64, &mut body);
    let after = area.0.into_inner();
    let Look::Message(header) = found else {
        assert_eq!(after, bytes, "nothing was taken, and nothing changes");
        return;
    };
    let len_bytes = record_bytes(u64::from(header.body_bytes)) as usize;
    assert!(len_bytes <= room);
    assert_eq!(header.encode(), bytes[at..at + 24]);
    assert_eq!(body, &bytes[at + 24..at + 24 + header.body_bytes as usize]);
    assert!(after[at..at + len_bytes].iter().all(|byte| *byte == 0), "the place is empty");
    assert!(after[..at] == bytes[..at] && after[at + len_bytes..] == bytes[at + len_bytes..], "the rest is as it was");
}

fn look_checked(bytes: &[u8], at: usize, room: usize) {
    let (area, mut body) = (FuzzArea(RefCell::new(bytes.to_vec())), Vec::new());
    let found = take_checked(&area, at as u64, room as u64, &mut body);
    let checked = check_record(&bytes[at..at + room]);
    if let Some((header, checked_body)) = checked {
        assert!(checked_body.len() == header.body_bytes as usize && checked_body.len() < room);
    }
    if let Look::Message(header) = found {
        assert_eq!(checked, Some((header, &body[..])), "both looks agree");
        assert!(area.load(at as u64) == 0, "it is taken once");
    }
}

/// Memory that nobody else writes.
struct FuzzArea(RefCell<Vec<u8>>);

impl PeerArea for FuzzArea {
    fn len_bytes(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn load(&self, at: u64) -> u64 {
        let mut word = [0; 8];
        self.copy_out(at, &mut word);
        u64::from_le_bytes(word)
    }

    fn store(&self, at: u64, word: u64) {
        self.copy_in(at, &word.to_le_bytes());
    }

    fn copy_out(&self, at: u64, out: &mut [u8]) {
        out.copy_from_slice(&self.0.borrow()[at as usize..at as usize + out.len()]);
    }

    fn copy_in(&self, at: u64, bytes: &[u8]) {
        self.0.borrow_mut()[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::carrier::checked::put_checked;
    use crate::carrier::record::RecordEnds;
    use crate::frame::RpcKind;

    /// Memory with a right record of either kind at its start.
    fn memory(rng: &mut Rng) -> Vec<u8> {
        let mut body = vec![0; rng.usize(..120)];
        rng.fill(&mut body);
        let header = FrameHeader { body_bytes: body.len() as u32, ..FrameHeader::bare(RpcKind::Request, 1, 2) };
        let mut bytes = Vec::new();
        if rng.bool() {
            put_checked(&header, &body, &mut bytes);
        } else {
            bytes = RecordEnds::of(&header).around(&body).concat();
        }
        bytes.resize(256, 0);
        bytes
    }

    #[test]
    fn damaged_records_and_headers_keep_the_rules() {
        let rng = &mut Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut bytes = memory(rng);
            for _ in 0..rng.u8(..4) {
                let at = rng.usize(..bytes.len().min(48));
                bytes[at] = rng.u8(..) >> rng.u8(..8);
            }
            records(&bytes);
            let header = FrameHeader { flags: METADATA, body_bytes: 12, ..FrameHeader::bare(RpcKind::Reply, 1, 2) };
            let entry = [10, 0, 1, 6, 0, b'n', 1, 2, 3, 4, 5, 6];
            let mut message = [&header.encode()[..], &entry].concat();
            let at = rng.usize(..message.len());
            message[at] = rng.u8(..8);
            headers(&message);
            headers(&message[26..]);
            headers(&message[..20]);
        }
    }
}

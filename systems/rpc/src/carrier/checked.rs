//! Records with a check, for memory that is read while it may be written.
//!
//! ```text
//!  | header 24 | body | padding to 8 | CRC32 of header and body 4 | number 4 |
//! ```
//! Only the whole record passes: not the beginning of one request before the end of another, and not a reply that a READ
//! met half stored. The number in the tail makes most looks cheap: the checksum is computed when it fits.

use crate::carrier::record::{Look, record_bytes};
use crate::frame::{FrameHeader, HEADER_BYTES};
use crate::link::PeerArea;

const TAIL_BYTES: usize = 8;

/// Replaces the contents of `out` by the record of a message.
pub(crate) fn put_checked(header: &FrameHeader, body: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(body);
    let check = crc32fast::hash(out);
    out.resize(out.len().next_multiple_of(8), 0);
    out.extend_from_slice(&tail_of(check, header.number).to_le_bytes());
}

/// Looks for a record at `at` whose place has `room_bytes`. The place is free again when its message has been taken.
///
/// The sender may write the same record again at any time, or the next one over it: a record that does not pass is none.
pub(crate) fn take_checked(area: &impl PeerArea, at: u64, room_bytes: u64, body: &mut Vec<u8>) -> Look {
    let first = area.load(at);
    if first == 0 {
        return Look::Nothing;
    }
    let len_bytes = record_bytes(u64::from(first as u32));
    if len_bytes > room_bytes {
        return Look::Broken;
    }
    let tail = area.load(at + len_bytes - TAIL_BYTES as u64);
    if (tail >> 32) as u32 != area.load(at + 8) as u32 {
        return Look::Nothing;
    }
    let mut head = [0; HEADER_BYTES];
    area.copy_out(at, &mut head);
    // The peer may change its record at any time: the length that was checked counts.
    head[..8].copy_from_slice(&first.to_le_bytes());
    body.resize(first as u32 as usize, 0);
    area.copy_out(at + HEADER_BYTES as u64, body);
    if tail as u32 != check_of(&head, body) {
        return Look::Nothing;
    }
    area.store(at, 0);
    FrameHeader::decode(&head).map_or(Look::Broken, Look::Message)
}

/// The message of a whole record in `bytes`; `None` if it does not pass.
pub(crate) fn check_record(bytes: &[u8]) -> Option<(FrameHeader, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    let header = FrameHeader::decode(head)?;
    let body = rest.get(..header.body_bytes as usize)?;
    let tail = bytes.get(record_bytes(body.len() as u64) as usize - TAIL_BYTES..)?;
    let wanted = tail_of(check_of(head, body), header.number);
    (tail.first_chunk() == Some(&wanted.to_le_bytes())).then_some((header, body))
}

fn check_of(head: &[u8; HEADER_BYTES], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(body);
    hasher.finalize()
}

fn tail_of(check: u32, number: u32) -> u64 {
    u64::from(check) | u64::from(number) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::RpcKind;
    use crate::testlink::TestArea;

    fn record(number: u32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let header = FrameHeader { body_bytes: body.len() as u32, ..FrameHeader::bare(RpcKind::Request, 3, number) };
        put_checked(&header, body, &mut out);
        out
    }

    #[test]
    fn every_beginning_of_a_record_over_another_is_no_record() {
        let (old, new, mut body) = (record(7, &[1; 50]), record(8, &[2; 50]), Vec::new());
        // The first word of both is the same.
        for cut in (16..new.len()).step_by(8) {
            let area = TestArea::new(128);
            area.copy_in(0, &old);
            area.copy_in(0, &new[..cut]);
            assert_eq!(take_checked(&area, 0, 128, &mut body), Look::Nothing, "{cut} bytes");
            area.copy_in(0, &new);
            assert!(matches!(take_checked(&area, 0, 128, &mut body), Look::Message(header) if header.number == 8));
            assert_eq!(body, [2; 50]);
            assert_eq!(take_checked(&area, 0, 128, &mut body), Look::Nothing, "it has been taken");
        }
    }

    #[test]
    fn a_record_with_a_piece_of_another_between_its_ends_is_no_record() {
        let (area, mut body) = (TestArea::new(128), Vec::new());
        area.copy_in(0, &record(8, &[2; 50]));
        area.store(40, 0);
        assert_eq!(take_checked(&area, 0, 128, &mut body), Look::Nothing);
    }

    #[test]
    fn changed_bytes_and_wrong_lengths_do_not_pass() {
        let good = record(1, b"thirteen byte");
        assert_eq!(check_record(&good).map(|(header, body)| (header.number, body)), Some((1, &b"thirteen byte"[..])));
        for at in (0..good.len()).filter(|at| !(37..40).contains(at)) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert_eq!(check_record(&bad), None, "byte {at}");
        }
        assert_eq!(check_record(&good[..good.len() - 1]), None);
        let area = TestArea::new(256);
        area.copy_in(0, &record(1, &[0; 100]));
        assert_eq!(take_checked(&area, 0, 128, &mut Vec::new()), Look::Broken, "it ends behind its place");
    }
}

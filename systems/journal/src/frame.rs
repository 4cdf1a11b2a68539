//! Records with one checksum: the unit of writing.
//!
//! ```text
//!  0       4      8        16        24      28    32
//! | magic | len | first  | durable | count | crc | records, each behind its length (4 bytes) | zeros to a multiple of 8
//! ```
//! `len` counts the bytes of the records. `first` is the number of the first record; the others follow it. `durable` is the
//! number up to which records were synced when the frame was written. So a reader can judge a
//! hole. A power cut made it, if no frame behind it was written when the missing records were durable. Otherwise it is damage.
//!
//! The checksum is CRC-32C (RFC 3720, appendix B.4) of the file's salt, the header's first 28 bytes, and the records.

/// Bytes of a frame's header.
pub(crate) const FRAME_BYTES: usize = 32;
const MAGIC: u32 = 0x464a_414c;

/// The header of a frame whose checksum is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordFrame {
    pub(crate) first: u64,
    pub(crate) durable: u64,
    pub(crate) count: u32,
    pub(crate) body_bytes: usize,
}

impl RecordFrame {
    /// Bytes of the whole frame in its file.
    pub(crate) fn frame_bytes(&self) -> usize {
        (FRAME_BYTES + self.body_bytes).next_multiple_of(8)
    }

    /// The number after the frame's last one.
    pub(crate) fn next(&self) -> u64 {
        self.first + u64::from(self.count)
    }
}

/// Room for the header of a frame to be.
pub(crate) fn begin(frame: &mut Vec<u8>) {
    frame.clear();
    frame.resize(FRAME_BYTES, 0);
}

/// Adds a record of several parts.
pub(crate) fn add(frame: &mut Vec<u8>, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    frame.extend_from_slice(&(len as u32).to_le_bytes());
    parts.iter().for_each(|part| frame.extend_from_slice(part));
}

/// Fills in the header.
pub(crate) fn finish(frame: &mut Vec<u8>, (first, durable): (u64, u64), count: u32, salt: u64) {
    let body_bytes = frame.len() - FRAME_BYTES;
    frame[..4].copy_from_slice(&MAGIC.to_le_bytes());
    frame[4..8].copy_from_slice(&(body_bytes as u32).to_le_bytes());
    frame[8..16].copy_from_slice(&first.to_le_bytes());
    frame[16..24].copy_from_slice(&durable.to_le_bytes());
    frame[24..28].copy_from_slice(&count.to_le_bytes());
    let sum = checksum(salt, &frame[..28], &frame[FRAME_BYTES..]);
    frame[28..32].copy_from_slice(&sum.to_le_bytes());
    frame.resize(frame.len().next_multiple_of(8), 0);
}

/// The header at the begin of these bytes; `None` if there is no whole frame with a right checksum.
pub(crate) fn parse(bytes: &[u8], salt: u64) -> Option<RecordFrame> {
    let head = peek(bytes)?;
    let body = bytes.get(FRAME_BYTES..FRAME_BYTES + head.body_bytes)?;
    let sum = word32(bytes, 28)?;
    let is_right = checksum(salt, &bytes[..28], body) == sum && records(body).count() == head.count as usize;
    (is_right && head.first.checked_add(u64::from(head.count)).is_some()).then_some(head)
}

/// A header whose checksum nobody has compared yet.
pub(crate) fn peek(bytes: &[u8]) -> Option<RecordFrame> {
    (word32(bytes, 0)? == MAGIC).then_some(())?;
    Some(RecordFrame {
        body_bytes: word32(bytes, 4)? as usize,
        first: word64(bytes, 8)?,
        durable: word64(bytes, 16)?,
        count: word32(bytes, 24)?,
    })
}

/// The records of a frame's body. Ends early where a length is wrong.
pub(crate) fn records(mut body: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = body.split_first_chunk::<4>()?;
        let (record, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        body = rest;
        Some(record)
    })
}

fn checksum(salt: u64, head: &[u8], body: &[u8]) -> u32 {
    let sum = crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), head);
    crc32c::crc32c_append(sum, body)
}

pub(crate) fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(crate) fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_and_each_wrong_bit_is_found() {
        let mut frame = Vec::new();
        begin(&mut frame);
        add(&mut frame, &[b"one"]);
        add(&mut frame, &[b"", b"two", b"!"]);
        finish(&mut frame, (7, 5), 2, 99);
        let head = parse(&frame, 99).unwrap();
        assert_eq!(head, RecordFrame { first: 7, durable: 5, count: 2, body_bytes: 15 });
        assert_eq!((head.frame_bytes(), head.next()), (frame.len(), 9));
        let found: Vec<&[u8]> = records(&frame[FRAME_BYTES..FRAME_BYTES + 15]).collect();
        assert_eq!(found, [&b"one"[..], b"two!"]);
        assert_eq!(parse(&frame, 98), None, "of another file");
        for bit in 0..(FRAME_BYTES + 15) * 8 {
            let mut wrong = frame.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&wrong, 99), None, "bit {bit}");
        }
        for len in 0..FRAME_BYTES + 15 {
            assert_eq!(parse(&frame[..len], 99), None, "{len} bytes");
        }
    }
}

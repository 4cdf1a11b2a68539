//! Records: messages in memory that the receiver polls.
//!
//! ```text
//!  | header 24 | body | padding to 8 | tail 8 |
//! ```
//! The first word of the header is not zero, and the tail is the same word. A receiver waits for the first word, then for
//! the tail, which arrives last. It copies the message out, and zeroes the record before the sender may use the place
//! again. So old bytes never look like a tail. (Dragojević et al., "FaRM: Fast Remote Memory", NSDI 2014, section 4.)

use crate::frame::{FrameHeader, HEADER_BYTES};
use crate::link::{LinkBusy, PeerArea, SessionLink};

/// Bytes of a record besides those of the body.
pub(crate) const RECORD_OVERHEAD_BYTES: u64 = HEADER_BYTES as u64 + TAIL_BYTES;
const TAIL_BYTES: u64 = 8;
const ZEROS: [u8; 256] = [0; 256];

/// Length of the record of a body.
pub(crate) fn record_bytes(body_bytes: u64) -> u64 {
    body_bytes.next_multiple_of(8) + RECORD_OVERHEAD_BYTES
}

/// The bytes of a record around its body.
pub(crate) struct RecordEnds {
    head: [u8; HEADER_BYTES],
    tail: [u8; 16],
    padding: usize,
}

impl RecordEnds {
    pub(crate) fn of(header: &FrameHeader) -> RecordEnds {
        let head = header.encode();
        let mut tail = [0; 16];
        let padding = (header.body_bytes as usize).next_multiple_of(8) - header.body_bytes as usize;
        tail[padding..padding + 8].copy_from_slice(&head[..8]);
        RecordEnds { head, tail, padding }
    }

    /// The whole record as parts.
    pub(crate) fn around<'a>(&'a self, body: &'a [u8]) -> [&'a [u8]; 3] {
        [&self.head, body, &self.tail[..self.padding + 8]]
    }
}

/// Writes a record to `at` in the peer's area.
pub(crate) fn write_record<L: SessionLink>(
    link: &mut L,
    at: u64,
    header: &FrameHeader,
    body: &[u8],
) -> Result<(), LinkBusy> {
    link.write(at, &RecordEnds::of(header).around(body))
}

/// A look at the place of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// No record, or not yet the whole of one.
    Nothing,
    /// A message. Its body has been copied out, and the record zeroed.
    Message(FrameHeader),
    /// The sender broke the rules: there is no such message, or it goes beyond the end of the place.
    Broken,
}

/// Looks for a record at `at` whose place has `room_bytes`.
pub(crate) fn take_record(area: &impl PeerArea, at: u64, room_bytes: u64, body: &mut Vec<u8>) -> Look {
    let first = area.load(at);
    if first == 0 {
        return Look::Nothing;
    }
    let len_bytes = record_bytes(u64::from(first as u32));
    if len_bytes > room_bytes {
        return Look::Broken;
    }
    if area.load(at + len_bytes - TAIL_BYTES) != first {
        return Look::Nothing;
    }
    let mut head = [0; HEADER_BYTES];
    area.copy_out(at, &mut head);
    // The peer may change its record at any time: the length that was checked counts.
    head[..8].copy_from_slice(&first.to_le_bytes());
    let Some(header) = FrameHeader::decode(&head) else {
        return Look::Broken;
    };
    body.resize(header.body_bytes as usize, 0);
    area.copy_out(at + HEADER_BYTES as u64, body);
    zero(area, at, len_bytes);
    Look::Message(header)
}

/// Zeroes a record.
fn zero(area: &impl PeerArea, at: u64, len_bytes: u64) {
    let mut done = 0;
    while done < len_bytes {
        let part = (len_bytes - done).min(ZEROS.len() as u64);
        area.copy_in(at + done, &ZEROS[..part as usize]);
        done += part;
    }
}

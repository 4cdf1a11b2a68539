//! The header of every message between a client and a server, whatever carries it.
//!
//! ```text
//!  0        4      6      7      8        12           16            24
//!  | body   | slot | kind | flags| number | time left  | method      | body …
//!  | bytes  |      |      |      |        | or code    |             |
//! ```
//! All fields are little endian. The first word is never zero, because no kind is.

use longarm::RemoteKey;

use crate::code::{Code, Executed};
use crate::metadata::Metadata;

/// Length of a header.
pub(crate) const HEADER_BYTES: usize = 24;

/// The body is the key to the real one, in the sender's memory.
pub(crate) const LARGE: u8 = 1;
/// The body begins with metadata: its length (2 bytes) and itself.
pub(crate) const METADATA: u8 = 2;

/// The meaning of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RpcKind {
    /// Client: execute this.
    Request = 1,
    /// Server: the outcome.
    Reply = 2,
    /// Client: nobody waits for this request any more.
    Cancel = 3,
    /// Client: the large reply has been read.
    Done = 4,
    /// Server: send no more requests.
    Drain = 5,
}

/// A header in the machine's own form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) kind: RpcKind,
    pub(crate) flags: u8,
    /// The place of the call among those of its session.
    pub(crate) slot: u16,
    /// Counts the requests of a slot, from 1 on, wrapping.
    pub(crate) number: u32,
    pub(crate) body_bytes: u32,
    /// In a request: microseconds until its deadline; zero means none. In a reply: the outcome.
    pub(crate) info: u32,
    /// In a request: the number of the method.
    pub(crate) method: u64,
}

impl FrameHeader {
    /// The header of a message without a body.
    pub(crate) fn bare(kind: RpcKind, slot: u16, number: u32) -> FrameHeader {
        FrameHeader { kind, flags: 0, slot, number, body_bytes: 0, info: 0, method: 0 }
    }

    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.slot.to_le_bytes());
        bytes[6] = self.kind as u8;
        bytes[7] = self.flags;
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.info.to_le_bytes());
        bytes[16..].copy_from_slice(&self.method.to_le_bytes());
        bytes
    }

    /// The header in `bytes`; `None` if there is no such kind or flag.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<FrameHeader> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let kind = match bytes[6] {
            1 => RpcKind::Request,
            2 => RpcKind::Reply,
            3 => RpcKind::Cancel,
            4 => RpcKind::Done,
            5 => RpcKind::Drain,
            _ => return None,
        };
        (bytes[7] & !(LARGE | METADATA) == 0).then_some(FrameHeader {
            kind,
            flags: bytes[7],
            slot: u16::from_le_bytes([bytes[4], bytes[5]]),
            number: word(8),
            body_bytes: word(0),
            info: word(12),
            method: u64::from(word(16)) | u64::from(word(20)) << 32,
        })
    }

    /// The header at the start of `bytes` and the body behind it, which must be all the rest.
    pub(crate) fn split(bytes: &[u8]) -> Option<(FrameHeader, &[u8])> {
        let (header, body) = bytes.split_first_chunk()?;
        let header = FrameHeader::decode(header)?;
        (body.len() as u64 == u64::from(header.body_bytes)).then_some((header, body))
    }

    pub(crate) fn is_large(&self) -> bool {
        self.flags & LARGE != 0
    }
}

/// The outcome of a call as the `info` of a reply.
pub(crate) fn outcome_info(code: Code, executed: Executed) -> u32 {
    u32::from(code.number()) | u32::from(executed as u8) << 8
}

/// The outcome in the `info` of a reply.
pub(crate) fn outcome_of(info: u32) -> (Code, Executed) {
    let [code, executed, ..] = info.to_le_bytes();
    (Code::from_number(code), Executed::from_number(executed))
}

/// Appends the prefix of a body with metadata; returns the flag for the header.
pub(crate) fn put_metadata(metadata: &Metadata, out: &mut Vec<u8>) -> u8 {
    if metadata.is_empty() {
        return 0;
    }
    out.extend_from_slice(&(metadata.encoded_bytes() as u16).to_le_bytes());
    metadata.encode(out);
    METADATA
}

/// The metadata of a body and the bytes that they take; `None` if they are malformed.
pub(crate) fn take_metadata(flags: u8, body: &[u8]) -> Option<(Metadata, usize)> {
    if flags & METADATA == 0 {
        return Some((Metadata::default(), 0));
    }
    let (len_bytes, rest) = body.split_first_chunk()?;
    let len_bytes = usize::from(u16::from_le_bytes(*len_bytes));
    let metadata = Metadata::decode(rest.get(..len_bytes)?)?;
    Some((metadata, 2 + len_bytes))
}

/// The key in the body of a large message; `None` if it is none, or leads to more than `max_bytes`.
pub(crate) fn large_key(body: &[u8], max_bytes: usize) -> Option<RemoteKey> {
    let key = RemoteKey::from_bytes(body).ok()?;
    (key.len_bytes() <= max_bytes as u64).then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_decodes_to_the_same() {
        let header = FrameHeader {
            kind: RpcKind::Request,
            flags: LARGE,
            slot: 31,
            number: u32::MAX,
            body_bytes: 20,
            info: 77,
            method: 0x0123_4567_89ab_cdef,
        };
        assert_eq!(FrameHeader::decode(&header.encode()), Some(header));
    }

    #[test]
    fn unknown_kinds_and_flags_and_wrong_lengths_are_refused() {
        let good = FrameHeader::bare(RpcKind::Cancel, 1, 2).encode();
        assert!(FrameHeader::split(&good).is_some());
        assert!(FrameHeader::split(&[&good[..], &[0]].concat()).is_none());
        assert!(FrameHeader::split(&good[..23]).is_none());
        for (at, value) in [(6, 0), (6, 6), (7, 4)] {
            let mut bad = good;
            bad[at] = value;
            assert_eq!(FrameHeader::decode(&bad), None, "byte {at} is {value}");
        }
    }

    #[test]
    fn outcomes_survive() {
        for code in Code::ALL {
            assert_eq!(outcome_of(outcome_info(code, Executed::Unknown)), (code, Executed::Unknown));
        }
    }
}

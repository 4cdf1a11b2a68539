//! GETs as calls that the server's device carries out: their bytes.
//!
//! ```text
//!  call    | 1 | key                                    | 0 |    are GETs served?
//!  reply   | 1 | header 8 | expires 8, stamp 8, value    | 0 |    the key is absent
//!          | 2 |   ask the server: the value is long, or writers were in between    | 3 |   GETs are served
//!          empty: the call is malformed
//! ```
//! The header is the first word of the object, little-endian.

use remote::ObjectHeader;

/// The longest key of such a GET. A call has one packet of at least 256 bytes.
pub(crate) const LONGEST_KEY: usize = 255;
/// Bytes of the longest reply.
pub(crate) const REPLY_BYTES: usize = 16 << 10;
/// Bytes before the stored bytes in a reply.
const HEAD_BYTES: usize = 9;

const ASK_SERVED: u8 = 0;
const GET: u8 = 1;
const ABSENT: u8 = 0;
const FOUND: u8 = 1;
const ASK_SERVER: u8 = 2;
const SERVED: u8 = 3;

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceCall<'a> {
    /// Are GETs served?
    AskServed,
    Get(&'a [u8]),
}

impl<'a> DeviceCall<'a> {
    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.clear();
        match self {
            DeviceCall::AskServed => out.push(ASK_SERVED),
            DeviceCall::Get(key) => {
                out.push(GET);
                out.extend_from_slice(key);
            }
        }
    }

    /// `None`: it is malformed.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<DeviceCall<'a>> {
        match bytes.split_first()? {
            (&ASK_SERVED, []) => Some(DeviceCall::AskServed),
            (&GET, key) if key.len() <= LONGEST_KEY => Some(DeviceCall::Get(key)),
            _ => None,
        }
    }
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceReply<'a> {
    Served,
    Absent,
    /// The object's first word, and the stored bytes.
    Found(ObjectHeader, &'a [u8]),
    AskServer,
}

impl<'a> DeviceReply<'a> {
    /// Hands the reply out in parts, or [`AskServer`](DeviceReply::AskServer) if it does not fit.
    pub(crate) fn encode(self, room_bytes: usize, mut append: impl FnMut(&[u8])) {
        match self {
            DeviceReply::Served => append(&[SERVED]),
            DeviceReply::Absent => append(&[ABSENT]),
            DeviceReply::Found(header, stored) if HEAD_BYTES + stored.len() <= room_bytes => {
                append(&[FOUND]);
                append(&header.word().to_le_bytes());
                append(stored);
            }
            DeviceReply::Found(..) | DeviceReply::AskServer => append(&[ASK_SERVER]),
        }
    }

    /// `None`: it is none of ours.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<DeviceReply<'a>> {
        match bytes.split_first()? {
            (&SERVED, []) => Some(DeviceReply::Served),
            (&ABSENT, []) => Some(DeviceReply::Absent),
            (&ASK_SERVER, []) => Some(DeviceReply::AskServer),
            (&FOUND, rest) => {
                let (word, stored) = rest.split_first_chunk()?;
                Some(DeviceReply::Found(ObjectHeader::from_word(u64::from_le_bytes(*word)), stored))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_replies_come_back_and_others_do_not() {
        let mut bytes = Vec::new();
        for call in [DeviceCall::AskServed, DeviceCall::Get(b""), DeviceCall::Get(b"key")] {
            call.encode(&mut bytes);
            assert_eq!(DeviceCall::decode(&bytes), Some(call));
        }
        let long = [&[GET][..], &[7; LONGEST_KEY + 1]].concat();
        for wrong in [&b""[..], &[ASK_SERVED, 1], &[9], &long] {
            assert_eq!(DeviceCall::decode(wrong), None, "{wrong:?}");
        }
        let found = DeviceReply::Found(ObjectHeader::from_word(u64::MAX - 5), b"stored");
        for reply in [DeviceReply::Served, DeviceReply::Absent, DeviceReply::AskServer, found] {
            let mut bytes = Vec::new();
            reply.encode(15, |part| bytes.extend_from_slice(part));
            assert_eq!(DeviceReply::decode(&bytes), Some(reply));
        }
        let mut bytes = Vec::new();
        found.encode(14, |part| bytes.extend_from_slice(part));
        assert_eq!(DeviceReply::decode(&bytes), Some(DeviceReply::AskServer));
        for wrong in [&b""[..], &[FOUND, 1, 2], &[ABSENT, 0], &[9]] {
            assert_eq!(DeviceReply::decode(wrong), None, "{wrong:?}");
        }
    }
}

//! Replies in RESP2 and RESP3 ("Redis serialization protocol specification").

use crate::number::Digits;

/// Bytes of replies that a client may have at a time.
const MOST_BYTES: usize = 1 << 30;

/// Replies to one client that are not yet sent.
#[derive(Debug, Default)]
pub(crate) struct RespReply {
    pub(crate) bytes: Vec<u8>,
    /// The client has chosen RESP3.
    pub(crate) is_resp3: bool,
}

impl RespReply {
    /// True if no further reply shall be made: the client will be cut off.
    pub(crate) fn is_too_long(&self) -> bool {
        self.bytes.len() > MOST_BYTES
    }

    pub(crate) fn ok(&mut self) {
        self.bytes.extend_from_slice(b"+OK\r\n");
    }

    pub(crate) fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error; line breaks in it become spaces.
    pub(crate) fn error(&mut self, text: &[u8]) {
        self.bytes.push(b'-');
        self.bytes.extend(text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(crate) fn integer(&mut self, number: i64) {
        self.line(b':', Digits::of(number).as_bytes());
    }

    pub(crate) fn count(&mut self, number: impl TryInto<i64>) {
        self.integer(number.try_into().unwrap_or(i64::MAX));
    }

    pub(crate) fn bulk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        self.line(b'$', Digits::of(bytes.len() as i64).as_bytes());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// No value.
    pub(crate) fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// No array.
    pub(crate) fn null_array(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" });
    }

    /// The head of an array.
    pub(crate) fn array(&mut self, len: usize) {
        self.line(b'*', Digits::of(len as i64).as_bytes());
    }

    /// The head of a map of so many pairs; an array of keys and values in RESP2.
    pub(crate) fn map(&mut self, pairs: usize) {
        match self.is_resp3 {
            true => self.line(b'%', Digits::of(pairs as i64).as_bytes()),
            false => self.array(pairs * 2),
        }
    }

    /// The head of a set; an array in RESP2.
    pub(crate) fn set(&mut self, len: usize) {
        self.line(if self.is_resp3 { b'~' } else { b'*' }, Digits::of(len as i64).as_bytes());
    }

    /// The head of a message that no request asked for; an array in RESP2.
    pub(crate) fn push(&mut self, len: usize) {
        self.line(if self.is_resp3 { b'>' } else { b'*' }, Digits::of(len as i64).as_bytes());
    }

    /// Text for people; a bulk string in RESP2.
    pub(crate) fn verbatim(&mut self, text: &str) {
        if !self.is_resp3 {
            return self.bulk(text);
        }
        self.line(b'=', Digits::of(text.len() as i64 + 4).as_bytes());
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use redis_protocol::resp2::types::OwnedFrame as Old;
    use redis_protocol::resp3::types::OwnedFrame as New;

    use super::*;

    fn all_kinds(is_resp3: bool) -> Vec<u8> {
        let mut reply = RespReply { is_resp3, ..RespReply::default() };
        reply.push(11);
        reply.ok();
        reply.simple("PONG");
        reply.error(b"ERR a\nb");
        reply.integer(-7);
        reply.bulk("a\r\nb");
        reply.null();
        reply.array(1);
        reply.count(3_u64);
        reply.map(1);
        reply.bulk("k");
        reply.bulk("v");
        reply.set(0);
        reply.verbatim("text");
        reply.null_array();
        reply.bytes
    }

    #[test]
    fn another_decoder_reads_both_versions() {
        let bytes = all_kinds(false);
        let (frame, len) = redis_protocol::resp2::decode::decode(&bytes).unwrap().unwrap();
        let Old::Array(items) = frame else { panic!("{frame:?}") };
        assert_eq!((len, items.len()), (bytes.len(), 11));
        assert_eq!(items[2], Old::Error("ERR a b".into()));
        assert_eq!(items[4], Old::BulkString(b"a\r\nb".to_vec()));
        assert_eq!(items[7], Old::Array(vec![Old::BulkString(b"k".to_vec()), Old::BulkString(b"v".to_vec())]));
        let bytes = all_kinds(true);
        let (frame, len) = redis_protocol::resp3::decode::complete::decode(&bytes).unwrap().unwrap();
        let New::Push { data, .. } = frame else { panic!("{frame:?}") };
        assert_eq!((len, data.len()), (bytes.len(), 11));
        assert!(matches!(&data[7], New::Map { data, .. } if data.len() == 1));
        assert!(matches!(&data[8], New::Set { data, .. } if data.is_empty()));
        assert!(matches!(&data[9], New::VerbatimString { data, .. } if data == b"text"));
        assert_eq!((&data[5], &data[10]), (&New::Null, &New::Null));
    }
}

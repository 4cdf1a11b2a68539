//! Messages of the exchange.
//!
//! ```text
//!  0       4        5     6         8              12
//!  "LARM"  version  kind  reserved  body length    body
//!
//!  offer, answer:  ConnectionInfo (28 bytes), then the program's bytes
//!  refuse:         text
//!  ready:          nothing
//! ```

use crate::error::ConnectError;
use crate::qp::ConnectionInfo;

/// Bytes of the program's own that one side can hand to the other.
pub const MAX_BLOB_BYTES: usize = 64 << 10;

/// Length of what comes before the body.
pub(crate) const HEADER_BYTES: usize = 12;

const MAGIC: [u8; 4] = *b"LARM";
const VERSION: u8 = 1;
const MAX_TEXT_BYTES: usize = 1 << 10;
const INFO_BYTES: usize = ConnectionInfo::ENCODED_BYTES;

/// What one side tells of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Greeting {
    pub(crate) info: ConnectionInfo,
    pub(crate) blob: Vec<u8>,
}

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Frame {
    Offer(Greeting),
    Answer(Greeting),
    Ready,
    Refuse(String),
}

/// The start of a message: its kind, and how long its body is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    kind: u8,
    pub(crate) body_bytes: usize,
}

/// What is wrong with a message.
pub(crate) type Problem = &'static str;

impl Header {
    /// Reads the start of a message. The body length is within bounds.
    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Problem> {
        if bytes[..4] != MAGIC {
            return Err("it does not begin as this exchange does");
        }
        if bytes[4] != VERSION {
            return Err("its version is not 1");
        }
        let kind = bytes[5];
        let length = [bytes[8], bytes[9], bytes[10], bytes[11]];
        let body_bytes = u32::from_be_bytes(length) as usize;
        let allowed = match kind {
            1 | 2 => INFO_BYTES..=INFO_BYTES + MAX_BLOB_BYTES,
            3 => 0..=0,
            4 => 0..=MAX_TEXT_BYTES,
            _ => return Err("it sent a message of an unknown kind"),
        };
        match allowed.contains(&body_bytes) {
            true => Ok(Header { kind, body_bytes }),
            false => Err("it sent a message of a wrong length"),
        }
    }

    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.kind;
        bytes[8..].copy_from_slice(&(self.body_bytes as u32).to_be_bytes());
        bytes
    }
}

impl Frame {
    /// A refusal with as much of the text as there is room for.
    pub(crate) fn refusal(why: &str) -> Frame {
        let mut end = why.len().min(MAX_TEXT_BYTES);
        while !why.is_char_boundary(end) {
            end -= 1;
        }
        Frame::Refuse(why[..end].to_owned())
    }

    /// Reads the body that belongs to `header`.
    pub(crate) fn decode(header: Header, body: &[u8]) -> Result<Frame, ConnectError> {
        match header.kind {
            1 => Ok(Frame::Offer(Greeting::decode(body)?)),
            2 => Ok(Frame::Answer(Greeting::decode(body)?)),
            3 => Ok(Frame::Ready),
            _ => Ok(Frame::Refuse(printable(body))),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, body) = match self {
            Frame::Offer(greeting) => (1, greeting.encode()),
            Frame::Answer(greeting) => (2, greeting.encode()),
            Frame::Ready => (3, Vec::new()),
            Frame::Refuse(why) => (4, why.as_bytes().to_vec()),
        };
        let body_bytes = body.len();
        [&Header { kind, body_bytes }.encode()[..], &body].concat()
    }
}

impl Greeting {
    fn decode(body: &[u8]) -> Result<Greeting, ConnectError> {
        let info = body.get(..INFO_BYTES).unwrap_or_default();
        Ok(Greeting { info: ConnectionInfo::from_bytes(info)?, blob: body[INFO_BYTES..].to_vec() })
    }

    fn encode(&self) -> Vec<u8> {
        [&self.info.to_bytes()[..], &self.blob].concat()
    }
}

/// A peer's words, harmless on a terminal.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Refuses bytes of the program that would not fit.
pub(crate) fn check_blob(blob: &[u8]) -> Result<(), ConnectError> {
    match blob.len() {
        is if is > MAX_BLOB_BYTES => Err(ConnectError::BlobTooLong { is, max: MAX_BLOB_BYTES }),
        _ => Ok(()),
    }
}

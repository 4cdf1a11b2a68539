//! The headers of Longarm's own requests that a reply answers (docs/extensions.md).

use crate::bytes::put;

/// Which bits of an object's first word say that a writer has it.
///
/// ```text
///  byte 0..8
///  | lock mask: of the word's value as the responder's processor loads it |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectEth {
    /// If any of these bits is set, the object is locked.
    pub lock_mask: u64,
}

impl ObjectEth {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Reads the mask.
    #[inline]
    pub fn decode(bytes: &[u8; ObjectEth::LEN]) -> ObjectEth {
        ObjectEth { lock_mask: u64::from_be_bytes(*bytes) }
    }

    /// Writes the mask.
    #[inline]
    pub fn encode(&self) -> [u8; ObjectEth::LEN] {
        self.lock_mask.to_be_bytes()
    }
}

/// The length of a reply. Every packet of a reply has it, so each says by itself whether it is the last.
///
/// ```text
///  byte 0..4            4..8
///  | bytes of the reply | reserved |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReplyEth {
    /// Bytes of the whole reply: at most those that the request has room for.
    pub len_bytes: u32,
}

impl ReplyEth {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Reads the length; the reserved bytes are ignored.
    #[inline]
    pub fn decode(bytes: &[u8; ReplyEth::LEN]) -> ReplyEth {
        let [a, b, c, d, ..] = *bytes;
        ReplyEth { len_bytes: u32::from_be_bytes([a, b, c, d]) }
    }

    /// Writes the length.
    #[inline]
    pub fn encode(&self) -> [u8; ReplyEth::LEN] {
        let mut bytes = [0; ReplyEth::LEN];
        put(&mut bytes, 0, self.len_bytes.to_be_bytes());
        bytes
    }
}

//! The messages by which two ends make a session, over the reliable connection between them.
//!
//! ```text
//!  client                                server
//!   Hello    the ways I have, sizes  ──►
//!            ◄──  the way, sizes, keys   Welcome
//!   Ready    my keys                 ──►
//!   requests …
//! ```

use longarm::{AddressHandle, ConnectionInfo, RemoteKey};
use serde::{Deserialize, Serialize};

use crate::carrier::{MAX_SLOTS, RECORD_OVERHEAD_BYTES};
use crate::code::Code;
use crate::way::Way;

/// The first word of a Hello: another protocol has another one.
const MAGIC: u32 = u32::from_le_bytes(*b"LRPC");
/// The version of these messages and of the frames.
const VERSION: u16 = 1;

/// Limits of the sizes in a handshake.
const SLOT_BYTES: std::ops::RangeInclusive<u32> = 128..=65_536;
const RING_BYTES: std::ops::RangeInclusive<u32> = 4096..=16 << 20;
/// The longest message of all.
pub(crate) const MAX_MESSAGE_BYTES: u32 = 64 << 20;

/// Bytes of a TLS connection in one message, which is then shorter than the receive buffers.
#[cfg(feature = "tls")]
pub(crate) const RECORD_BYTES: usize = 1920;
/// Length of a nonce and of a tag.
pub(crate) const NONCE_BYTES: usize = 32;
pub(crate) const TAG_BYTES: usize = 32;

/// Sizes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SessionSizes {
    /// Calls at a time.
    pub(crate) slots: u16,
    /// Memory for each, in the ways that have slots; a multiple of 64.
    pub(crate) slot_bytes: u32,
    /// Length of each ring; a power of two.
    pub(crate) ring_bytes: u32,
    /// The longest message with its metadata.
    pub(crate) max_message_bytes: u32,
    /// The longest datagram; zero without an endpoint for them.
    pub(crate) datagram_bytes: u32,
}

impl SessionSizes {
    /// The smaller of both, made valid.
    pub(crate) fn meet(&self, other: &SessionSizes) -> SessionSizes {
        let within =
            |range: std::ops::RangeInclusive<u32>, a: u32, b: u32| a.min(b).clamp(*range.start(), *range.end());
        let ring_bytes = within(RING_BYTES, self.ring_bytes, other.ring_bytes);
        SessionSizes {
            slots: self.slots.min(other.slots).clamp(1, MAX_SLOTS),
            slot_bytes: within(SLOT_BYTES, self.slot_bytes, other.slot_bytes) & !63,
            ring_bytes: 1 << ring_bytes.ilog2(),
            max_message_bytes: self.max_message_bytes.min(other.max_message_bytes).clamp(1, MAX_MESSAGE_BYTES),
            datagram_bytes: self.datagram_bytes.min(other.datagram_bytes),
        }
    }

    /// The longest message in a slot.
    pub(crate) fn slot_body_bytes(&self) -> u32 {
        self.slot_bytes - RECORD_OVERHEAD_BYTES as u32
    }

    pub(crate) fn slots_bytes(&self) -> u64 {
        u64::from(self.slots) * u64::from(self.slot_bytes)
    }
}

/// A message of the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SessionMessage {
    Hello(Hello),
    Welcome(Welcome),
    /// The server makes no session.
    Refused {
        code: u8,
        words: String,
    },
    Ready(Ready),
    /// A piece of a TLS connection; the other messages travel in it.
    Tls(Vec<u8>),
    /// Random bytes for a proof by a shared key.
    KeyNonce([u8; NONCE_BYTES]),
    /// A message with the proof that its sender has the shared key.
    Proven {
        tag: [u8; TAG_BYTES],
        message: Vec<u8>,
    },
}

/// The client's wishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    magic: u32,
    version: u16,
    /// The ways that the client can use, the best first.
    pub(crate) ways: Vec<Way>,
    /// The client chose one by force, so the server must take it or refuse.
    pub(crate) is_forced: bool,
    pub(crate) sizes: SessionSizes,
    /// The client sleeps while it waits: replies must cause completions.
    pub(crate) sleeps: bool,
    /// The length of the messages that the client expects.
    pub(crate) typical_bytes: u32,
    /// The number that the client's datagrams and replies carry.
    pub(crate) token: u32,
}

/// The server's choice, and its memory for the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) way: Way,
    pub(crate) why: String,
    pub(crate) sizes: SessionSizes,
    /// The number of the session at the server.
    pub(crate) session: u32,
    pub(crate) token: u32,
    pub(crate) memory: OfferedMemory,
}

/// The client's memory for the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) memory: OfferedMemory,
}

/// Keys and addresses that one end gives to the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OfferedMemory {
    written: [u8; RemoteKey::ENCODED_BYTES],
    read: Option<[u8; RemoteKey::ENCODED_BYTES]>,
    uc: Option<Vec<u8>>,
    ud: Option<Vec<u8>>,
}

impl OfferedMemory {
    #[cfg(test)]
    pub(crate) fn of_bytes(written: [u8; RemoteKey::ENCODED_BYTES]) -> OfferedMemory {
        OfferedMemory { written, read: None, uc: None, ud: None }
    }

    pub(crate) fn new(
        written: RemoteKey,
        read: Option<RemoteKey>,
        uc: Option<ConnectionInfo>,
        ud: Option<AddressHandle>,
    ) -> OfferedMemory {
        OfferedMemory {
            written: written.to_bytes(),
            read: read.map(|key| key.to_bytes()),
            uc: uc.map(|info| info.to_bytes().to_vec()),
            ud: ud.map(|address| address.to_bytes().to_vec()),
        }
    }

    /// The key to the memory that the peer writes, and to that which it reads; `None` if they are malformed.
    pub(crate) fn keys(&self) -> Option<(RemoteKey, Option<RemoteKey>)> {
        let read = match &self.read {
            Some(bytes) => Some(RemoteKey::from_bytes(bytes).ok()?),
            None => None,
        };
        Some((RemoteKey::from_bytes(&self.written).ok()?, read))
    }

    pub(crate) fn uc(&self) -> Option<ConnectionInfo> {
        ConnectionInfo::from_bytes(self.uc.as_ref()?).ok()
    }

    pub(crate) fn ud(&self) -> Option<AddressHandle> {
        AddressHandle::from_bytes(self.ud.as_ref()?).ok()
    }
}

impl Hello {
    pub(crate) fn new(ways: Vec<Way>, is_forced: bool, sizes: SessionSizes, sleeps: bool, token: u32) -> Hello {
        Hello { magic: MAGIC, version: VERSION, ways, is_forced, sizes, sleeps, typical_bytes: 0, token }
    }

    /// The reason why a server does not talk to this client.
    pub(crate) fn objection(&self) -> Option<(Code, String)> {
        if self.magic != MAGIC {
            return Some((Code::InvalidArgument, "the client speaks another protocol".into()));
        }
        (self.version != VERSION).then(|| {
            (Code::FailedPrecondition, format!("the client has version {}, the server {VERSION}", self.version))
        })
    }
}

impl SessionMessage {
    pub(crate) fn refused(code: Code, words: impl Into<String>) -> SessionMessage {
        SessionMessage::Refused { code: code.number(), words: words.into() }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// The message in all of `bytes`.
    pub(crate) fn decode(bytes: &[u8]) -> Option<SessionMessage> {
        match postcard::take_from_bytes(bytes) {
            Ok((message, [])) => Some(message),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: SessionSizes = SessionSizes {
        slots: 32,
        slot_bytes: 512,
        ring_bytes: 65_536,
        max_message_bytes: 8 << 20,
        datagram_bytes: 1024,
    };

    #[test]
    fn messages_decode_to_the_same() {
        let hello = SessionMessage::Hello(Hello::new(Way::ALL.to_vec(), false, SIZES, true, 7));
        assert_eq!(SessionMessage::decode(&hello.encode()), Some(hello.clone()));
        let bytes = hello.encode();
        assert_eq!(SessionMessage::decode(&bytes[..bytes.len() - 1]), None);
        assert_eq!(SessionMessage::decode(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn sizes_become_valid() {
        let wild =
            SessionSizes { slots: 0, slot_bytes: 0, ring_bytes: 5000, max_message_bytes: u32::MAX, datagram_bytes: 0 };
        let met = SIZES.meet(&wild);
        assert!(met.meet(&met) == met && SIZES.meet(&SIZES) == SIZES);
        assert_eq!((met.slots, met.slot_bytes, met.ring_bytes), (1, 128, 4096));
    }
}

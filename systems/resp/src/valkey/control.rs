//! Control messages: 32 bytes each, big-endian, the opcode in the first two (valkey.io/topics/RDMA, "Control message").

use longarm::{RKey, RemoteKey};

/// Bytes of a message.
pub(super) const CONTROL_BYTES: usize = 32;

const GET_SERVER_FEATURE: u16 = 0;
const SET_CLIENT_FEATURE: u16 = 1;
const KEEPALIVE: u16 = 2;
const REGISTER_XFER_MEMORY: u16 = 3;

/// A control message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Control {
    /// A client asks for features; the server answers with those of this group that it has.
    GetServerFeature { select: u16, features: u64 },
    /// A client chooses among them.
    SetClientFeature { select: u16, features: u64 },
    /// The sender lives.
    Keepalive,
    /// The sender's buffer, empty again.
    RegisterXferMemory(RemoteKey),
}

impl Control {
    pub(super) fn encode(&self) -> [u8; CONTROL_BYTES] {
        let mut bytes = [0; CONTROL_BYTES];
        let opcode = match self {
            Control::GetServerFeature { .. } => GET_SERVER_FEATURE,
            Control::SetClientFeature { .. } => SET_CLIENT_FEATURE,
            Control::Keepalive => KEEPALIVE,
            Control::RegisterXferMemory(_) => REGISTER_XFER_MEMORY,
        };
        bytes[..2].copy_from_slice(&opcode.to_be_bytes());
        match self {
            Control::GetServerFeature { select, features } | Control::SetClientFeature { select, features } => {
                bytes[2..4].copy_from_slice(&select.to_be_bytes());
                bytes[24..].copy_from_slice(&features.to_be_bytes());
            }
            Control::Keepalive => {}
            Control::RegisterXferMemory(key) => {
                // Our own buffers are short.
                let len_bytes = u32::try_from(key.len_bytes()).unwrap_or(u32::MAX);
                bytes[16..24].copy_from_slice(&key.addr().to_be_bytes());
                bytes[24..28].copy_from_slice(&len_bytes.to_be_bytes());
                bytes[28..].copy_from_slice(&key.rkey().0.to_be_bytes());
            }
        }
        bytes
    }

    /// The message in these bytes. `None` if they are none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Control> {
        let bytes: &[u8; CONTROL_BYTES] = bytes.try_into().ok()?;
        let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| bytes[at..at + 4].iter().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        Some(match short(0) {
            GET_SERVER_FEATURE => Control::GetServerFeature { select: short(2), features: long(24) },
            SET_CLIENT_FEATURE => Control::SetClientFeature { select: short(2), features: long(24) },
            KEEPALIVE => Control::Keepalive,
            REGISTER_XFER_MEMORY => {
                Control::RegisterXferMemory(RemoteKey::from_parts(long(16), RKey(word(28)), word(24).into()))
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_fields_where_the_protocol_says() {
        let key = RemoteKey::from_parts(0x0102_0304_0506_0708, RKey(0x1122_3344), 0x10000);
        let mut bytes = [0; 32];
        bytes[1] = 3;
        bytes[16..].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 0, 0x11, 0x22, 0x33, 0x44]);
        assert_eq!(Control::RegisterXferMemory(key).encode(), bytes);
        let mut bytes = [0; 32];
        (bytes[3], bytes[31]) = (7, 9);
        assert_eq!(Control::GetServerFeature { select: 7, features: 9 }.encode(), bytes);
        bytes[1] = 2;
        assert_eq!(Control::decode(&bytes), Some(Control::Keepalive), "the rest has no meaning");
    }

    #[test]
    fn messages_come_back_and_others_are_none() {
        let key = RemoteKey::from_parts(u64::MAX, RKey(7), 12);
        for message in [
            Control::GetServerFeature { select: 1, features: u64::MAX },
            Control::SetClientFeature { select: u16::MAX, features: 2 },
            Control::Keepalive,
            Control::RegisterXferMemory(key),
        ] {
            let bytes = message.encode();
            assert_eq!(Control::decode(&bytes), Some(message));
            assert_eq!(Control::decode(&bytes[..31]), None);
            assert_eq!(Control::decode(&[&bytes[..], b"x"].concat()), None);
        }
        for opcode in [4_u16, 255, 256, u16::MAX] {
            let mut bytes = [0; 32];
            bytes[..2].copy_from_slice(&opcode.to_be_bytes());
            assert_eq!(Control::decode(&bytes), None);
        }
    }
}

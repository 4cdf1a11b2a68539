//! Management datagrams and closing messages between the hub and its clients: binary
//! frames on the socket of the text protocol.
//!
//! ```text
//!  byte 0      1       2               3         4..8   8..12       12..28   28..44    44..300
//!  | kind | flags | traffic class | reserved |  key  | interface |  local  | remote  |  MAD   |
//! ```
//!
//! Numbers are in network order, addresses are GIDs (IPv4 in its IPv4-mapped form). A frame that
//! withdraws a closing message ends after its key. Text begins with `{`, which is not a kind of a frame.
//!
//! Outside this module: it does not read a MAD.

use std::fmt;
use std::net::IpAddr;
use wire::Gid;

/// Bytes of a management datagram (IB specification 13.4.1).
pub const MAD_BYTES: usize = 256;

/// A management datagram of QP1 with the addresses of its packet.
#[derive(Clone, PartialEq, Eq)]
pub struct AddressedMad {
    /// The address of this host: the source or the destination.
    pub local: IpAddr,
    /// The peer's address.
    pub remote: IpAddr,
    /// Index of the interface with `local`. To send, 0 leaves the choice to the routing table,
    /// unless `remote` is link-local.
    pub interface: u32,
    /// IPv4 type of service or IPv6 traffic class.
    pub traffic_class: u8,
    /// The datagram.
    pub mad: [u8; MAD_BYTES],
}

impl fmt::Debug for AddressedMad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AddressedMad")
            .field("local", &self.local)
            .field("remote", &self.remote)
            .field("interface", &self.interface)
            .field("traffic_class", &self.traffic_class)
            .field("attribute", &format_args!("{:#06x}", u16::from_be_bytes([self.mad[16], self.mad[17]])))
            .finish_non_exhaustive()
    }
}

/// A message that the hub sends when the client is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClosingMessage {
    /// The message.
    pub(crate) packet: AddressedMad,
    /// Whether the hub repeats it until the peer answers.
    pub(crate) until_answered: bool,
}

/// A binary message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HubFrame {
    /// A MAD to send, or one that arrived.
    Mad(AddressedMad),
    /// Send this when the client is gone. Replaces an earlier one with this key.
    SetClosingMessage(u32, ClosingMessage),
    /// Withdraws the closing message with this key.
    ClearClosingMessage(u32),
    /// A MAD that the network could not deliver, and the errno that tells why.
    Undelivered(u32, AddressedMad),
}

const MAD: u8 = 1;
const SET_CLOSING_MESSAGE: u8 = 2;
const CLEAR_CLOSING_MESSAGE: u8 = 3;
const UNDELIVERED: u8 = 4;
const UNTIL_ANSWERED: u8 = 1;

const SHORT_BYTES: usize = 8;
const LONG_BYTES: usize = 44 + MAD_BYTES;

impl HubFrame {
    /// Whether a message is a frame, not text.
    pub(crate) fn is_frame(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(&(MAD | SET_CLOSING_MESSAGE | CLEAR_CLOSING_MESSAGE | UNDELIVERED)))
    }

    /// The frame's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            HubFrame::Mad(packet) => long(MAD, 0, 0, packet),
            HubFrame::SetClosingMessage(key, message) => {
                let flags = if message.until_answered { UNTIL_ANSWERED } else { 0 };
                long(SET_CLOSING_MESSAGE, flags, *key, &message.packet)
            }
            HubFrame::Undelivered(errno, packet) => long(UNDELIVERED, 0, *errno, packet),
            HubFrame::ClearClosingMessage(key) => head(CLEAR_CLOSING_MESSAGE, 0, 0, *key).to_vec(),
        }
    }

    /// Reads a frame; `None` if any byte is wrong.
    pub(crate) fn decode(bytes: &[u8]) -> Option<HubFrame> {
        let (&[kind, flags, traffic_class, reserved, a, b, c, d], rest) = bytes.split_first_chunk::<SHORT_BYTES>()?;
        let key = u32::from_be_bytes([a, b, c, d]);
        match (kind, flags, reserved) {
            (MAD, 0, 0) if key == 0 => Some(HubFrame::Mad(packet(traffic_class, rest)?)),
            (SET_CLOSING_MESSAGE, 0 | UNTIL_ANSWERED, 0) => {
                let packet = packet(traffic_class, rest)?;
                Some(HubFrame::SetClosingMessage(
                    key,
                    ClosingMessage { packet, until_answered: flags == UNTIL_ANSWERED },
                ))
            }
            (UNDELIVERED, 0, 0) => Some(HubFrame::Undelivered(key, packet(traffic_class, rest)?)),
            (CLEAR_CLOSING_MESSAGE, 0, 0) if traffic_class == 0 && rest.is_empty() => {
                Some(HubFrame::ClearClosingMessage(key))
            }
            _ => None,
        }
    }
}

fn head(kind: u8, flags: u8, traffic_class: u8, key: u32) -> [u8; SHORT_BYTES] {
    let [a, b, c, d] = key.to_be_bytes();
    [kind, flags, traffic_class, 0, a, b, c, d]
}

fn long(kind: u8, flags: u8, key: u32, packet: &AddressedMad) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LONG_BYTES);
    bytes.extend_from_slice(&head(kind, flags, packet.traffic_class, key));
    bytes.extend_from_slice(&packet.interface.to_be_bytes());
    bytes.extend_from_slice(&Gid::from(packet.local).0);
    bytes.extend_from_slice(&Gid::from(packet.remote).0);
    bytes.extend_from_slice(&packet.mad);
    bytes
}

/// Reads the part of a long frame behind the head. Both addresses must be of one family.
fn packet(traffic_class: u8, rest: &[u8]) -> Option<AddressedMad> {
    let (interface, rest) = rest.split_first_chunk::<4>()?;
    let (local, rest) = rest.split_first_chunk::<16>()?;
    let (remote, mad) = rest.split_first_chunk::<16>()?;
    let (local, remote) = (Gid(*local).ip(), Gid(*remote).ip());
    let mad = <[u8; MAD_BYTES]>::try_from(mad).ok()?;
    let interface = u32::from_be_bytes(*interface);
    let whole = AddressedMad { local, remote, interface, traffic_class, mad };
    (local.is_ipv4() == remote.is_ipv4()).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mad_packet() -> AddressedMad {
        AddressedMad {
            local: [192, 0, 2, 1].into(),
            remote: [192, 0, 2, 2].into(),
            interface: 3,
            traffic_class: 0xb8,
            mad: std::array::from_fn(|i| i as u8),
        }
    }

    fn frames() -> Vec<HubFrame> {
        let v6 = AddressedMad { local: "fe80::1".parse().unwrap(), remote: "fe80::2".parse().unwrap(), ..mad_packet() };
        vec![
            HubFrame::Mad(mad_packet()),
            HubFrame::Mad(v6.clone()),
            HubFrame::SetClosingMessage(7, ClosingMessage { packet: v6, until_answered: true }),
            HubFrame::SetClosingMessage(u32::MAX, ClosingMessage { packet: mad_packet(), until_answered: false }),
            HubFrame::ClearClosingMessage(0xffff_0000),
            HubFrame::Undelivered(111, mad_packet()),
        ]
    }

    #[test]
    fn frames_survive_their_bytes() {
        for frame in frames() {
            let bytes = frame.encode();
            assert!(HubFrame::is_frame(&bytes));
            assert_eq!(HubFrame::decode(&bytes), Some(frame));
        }
    }

    #[test]
    fn other_lengths_are_refused() {
        for frame in frames() {
            let bytes = frame.encode();
            for len in 0..bytes.len() {
                assert_eq!(HubFrame::decode(&bytes[..len]), None, "{frame:?} cut to {len} bytes");
            }
            assert_eq!(HubFrame::decode(&[bytes.as_slice(), &[0]].concat()), None, "{frame:?} with more");
        }
    }

    #[test]
    fn every_byte_of_the_head_matters() {
        for (at, value) in [(0, 0), (0, 5), (0, b'{'), (1, 2), (1, 0x81), (3, 1)] {
            for frame in frames() {
                let mut bytes = frame.encode();
                bytes[at] = value;
                assert_eq!(HubFrame::decode(&bytes), None, "byte {at} of {frame:?} is {value}");
            }
        }
        let mut with_key = HubFrame::Mad(mad_packet()).encode();
        with_key[7] = 1;
        assert_eq!(HubFrame::decode(&with_key), None, "a MAD has no key");
        let mut mixed = HubFrame::Mad(mad_packet()).encode();
        mixed[12] = 0xfe;
        assert_eq!(HubFrame::decode(&mixed), None, "the addresses are of two families");
    }

    #[test]
    fn text_is_no_frame() {
        assert!(!HubFrame::is_frame(br#"{"request":"ping"}"#));
        assert!(!HubFrame::is_frame(b""));
    }
}

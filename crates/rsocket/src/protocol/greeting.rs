//! The greeting: private data of connection requests and replies (`struct rs_conn_data`).
//!
//! ```text
//!  0 version  1 flags  2 credits  4 reserved  7 entries of the list of mappings, scaled
//!  8 list of buffers: address, key, entries
//! 24 the first buffer: address, key, bytes                      all in network order
//! ```

use super::buffer::{ByteOrder, PeerBuffer, part};

const VERSION: u8 = 1;
/// The sender is a big-endian machine.
const FLAG_BIG_ENDIAN: u8 = 1;
/// A list of mappings follows the list of buffers.
const FLAG_IOMAP: u8 = 2;

/// The first message of each end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamGreeting {
    /// The byte order of the sender's lists.
    pub(crate) order: ByteOrder,
    /// Messages that it can receive.
    pub(crate) credits: u16,
    /// Entries of its list of mappings; `None` if it knows no such thing.
    pub(crate) mappings: Option<u16>,
    /// Its list of our buffers; the length is in entries.
    pub(crate) list: PeerBuffer,
    /// Its first receive buffer.
    pub(crate) buffer: PeerBuffer,
}

impl StreamGreeting {
    /// Bytes of one.
    pub(crate) const BYTES: usize = 40;

    pub(crate) fn encode(&self) -> [u8; StreamGreeting::BYTES] {
        let mut out = [0; StreamGreeting::BYTES];
        out[0] = VERSION;
        out[1] = if self.order == ByteOrder::Big { FLAG_BIG_ENDIAN } else { 0 };
        out[2..4].copy_from_slice(&self.credits.to_be_bytes());
        if let Some(mappings) = self.mappings {
            out[1] |= FLAG_IOMAP;
            out[7] = scaled(mappings);
        }
        out[8..24].copy_from_slice(&self.list.encode(ByteOrder::Big));
        out[24..].copy_from_slice(&self.buffer.encode(ByteOrder::Big));
        out
    }

    /// `None` if it has another version, or is too short.
    pub(crate) fn decode(bytes: &[u8]) -> Option<StreamGreeting> {
        let bytes: &[u8; StreamGreeting::BYTES] = bytes.first_chunk()?;
        if bytes[0] != VERSION {
            return None;
        }
        Some(StreamGreeting {
            order: if bytes[1] & FLAG_BIG_ENDIAN != 0 { ByteOrder::Big } else { ByteOrder::Little },
            credits: u16::from_be_bytes(part(bytes, 2)),
            mappings: (bytes[1] & FLAG_IOMAP != 0).then(|| unscaled(bytes[7])),
            list: PeerBuffer::decode(&part(bytes, 8), ByteOrder::Big),
            buffer: PeerBuffer::decode(&part(bytes, 24), ByteOrder::Big),
        })
    }
}

/// A count in eight bits: as it is up to 128; above, in units of 256, so that some are lost.
fn scaled(count: u16) -> u8 {
    if count <= 128 { count as u8 } else { 128 | (count >> 8) as u8 }
}

fn unscaled(count: u8) -> u16 {
    if count <= 128 { count.into() } else { u16::from(count & 127) << 8 }
}

/// The count nearest to `count`, from below, that a greeting can tell.
pub(crate) fn tellable(count: u16) -> u16 {
    unscaled(scaled(count.min(0x7fff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As rstream sends it on Linux, taken from a capture.
    const LINUX: &str = "0102018000000000000056001482900000001be20000000200007fda8930a00000001c6900080000";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn reads_and_writes_what_linux_does() {
        let linux = bytes(LINUX);
        let greeting = StreamGreeting::decode(&linux).unwrap();
        assert_eq!(greeting.order, ByteOrder::Little);
        assert_eq!((greeting.credits, greeting.mappings), (384, Some(0)));
        assert_eq!((greeting.list.len, greeting.buffer.len), (2, 1 << 19));
        assert_eq!(greeting.encode()[..], linux[..]);
    }

    #[test]
    fn refuses_what_is_no_greeting() {
        let linux = bytes(LINUX);
        assert_eq!(StreamGreeting::decode(&linux[..39]), None);
        assert_eq!(StreamGreeting::decode(&[0; 56]), None);
        assert_eq!(StreamGreeting::decode(&[]), None);
        let without = StreamGreeting { mappings: None, ..StreamGreeting::decode(&linux).unwrap() };
        assert_eq!(StreamGreeting::decode(&without.encode()), Some(without));
    }

    #[test]
    fn counts_are_scaled() {
        for (count, told) in [(0, 0), (1, 1), (128, 128), (300, 256), (1000, 768), (40000, 0x7f00)] {
            assert_eq!(tellable(count), told, "{count}");
        }
    }
}

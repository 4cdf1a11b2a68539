//! The names of the peer's buffers: address, key and length.

/// The byte order of a list: the writer uses the reader's, which the greeting names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// This machine's.
    pub(crate) const NATIVE: ByteOrder = if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        }
    }

    fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        }
    }

    fn bytes4(self, value: u32) -> [u8; 4] {
        match self {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        }
    }

    fn bytes8(self, value: u64) -> [u8; 8] {
        match self {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        }
    }
}

/// A buffer that a peer may write to (`struct rs_sge`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PeerBuffer {
    /// Its first address.
    pub(crate) addr: u64,
    /// The remote key.
    pub(crate) key: u32,
    /// Bytes; or entries, where it is a list.
    pub(crate) len: u32,
}

impl PeerBuffer {
    /// Bytes of one.
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn encode(&self, order: ByteOrder) -> [u8; PeerBuffer::BYTES] {
        let mut out = [0; PeerBuffer::BYTES];
        out[..8].copy_from_slice(&order.bytes8(self.addr));
        out[8..12].copy_from_slice(&order.bytes4(self.key));
        out[12..].copy_from_slice(&order.bytes4(self.len));
        out
    }

    pub(crate) fn decode(bytes: &[u8; PeerBuffer::BYTES], order: ByteOrder) -> PeerBuffer {
        PeerBuffer { addr: order.u64(part(bytes, 0)), key: order.u32(part(bytes, 8)), len: order.u32(part(bytes, 12)) }
    }
}

/// A buffer of the application's that peers may write to directly (`struct rs_iomap`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct BufferMapping {
    /// The offset by which peers name its first byte.
    pub(crate) offset: u64,
    /// Its place in memory.
    pub(crate) buffer: PeerBuffer,
}

impl BufferMapping {
    /// Bytes of one.
    pub(crate) const BYTES: usize = 8 + PeerBuffer::BYTES;

    pub(crate) fn encode(&self, order: ByteOrder) -> [u8; BufferMapping::BYTES] {
        let mut out = [0; BufferMapping::BYTES];
        out[..8].copy_from_slice(&order.bytes8(self.offset));
        out[8..].copy_from_slice(&self.buffer.encode(order));
        out
    }

    pub(crate) fn decode(bytes: &[u8; BufferMapping::BYTES], order: ByteOrder) -> BufferMapping {
        BufferMapping { offset: order.u64(part(bytes, 0)), buffer: PeerBuffer::decode(&part(bytes, 8), order) }
    }

    /// The rest of the buffer from `offset` on, if that is inside.
    pub(crate) fn at_offset(&self, offset: u64) -> Option<PeerBuffer> {
        let into = offset.checked_sub(self.offset)?;
        let into = u32::try_from(into).ok().filter(|into| *into < self.buffer.len)?;
        let addr = self.buffer.addr.wrapping_add(into.into());
        Some(PeerBuffer { addr, key: self.buffer.key, len: self.buffer.len - into })
    }
}

/// `N` bytes from `at` on, which callers know to be there.
pub(super) fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_in_either_order() {
        let mapping = BufferMapping { offset: 0x0102, buffer: PeerBuffer { addr: 0x0a0b_0c0d_0e0f, key: 7, len: 9 } };
        for order in [ByteOrder::Little, ByteOrder::Big] {
            assert_eq!(BufferMapping::decode(&mapping.encode(order), order), mapping);
        }
        assert_eq!(mapping.encode(ByteOrder::Big)[6..8], [1, 2]);
        assert_eq!(mapping.encode(ByteOrder::Little)[..2], [2, 1]);
    }

    #[test]
    fn offsets_within_a_mapping() {
        let mapping = BufferMapping { offset: 100, buffer: PeerBuffer { addr: 5000, key: 1, len: 10 } };
        assert_eq!(mapping.at_offset(99), None);
        assert_eq!(mapping.at_offset(100), Some(PeerBuffer { addr: 5000, key: 1, len: 10 }));
        assert_eq!(mapping.at_offset(109), Some(PeerBuffer { addr: 5009, key: 1, len: 1 }));
        assert_eq!(mapping.at_offset(110), None);
        assert_eq!(mapping.at_offset(u64::MAX), None);
        assert_eq!(BufferMapping::default().at_offset(0), None);
    }
}

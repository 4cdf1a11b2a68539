//! Messages: the immediate data of a WRITE. Three bits of type, 29 of contents.

const SHIFT: u32 = 29;
/// The bits of the contents.
pub(crate) const MAX_DATA: u32 = (1 << SHIFT) - 1;

const DATA: u32 = 0b000;
const CREDIT: u32 = 0b100;
const IOMAP: u32 = 0b110;
const CONTROL: u32 = 0b111;

const DISCONNECT: u32 = 0;
const KEEPALIVE: u32 = 1;
const SHUTDOWN: u32 = 2;

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamMessage {
    /// The number of bytes that were written into the receive buffer.
    Data(u32),
    /// The sequence number up to which the receiver may send, of which the low 16 bits count. An
    /// entry of its list of buffers may have changed as well.
    Credit(u32),
    /// That entry of the list of mapped buffers has changed.
    Iomap(u32),
    /// The sender has stopped sending and receiving.
    Disconnect,
    /// Nothing.
    Keepalive,
    /// The sender has stopped sending.
    Shutdown,
    /// An unknown message: ignored.
    Unknown(u32),
}

impl StreamMessage {
    /// The 32 bits, in host order. Bits beyond the 29 are cut off.
    pub(crate) fn encode(self) -> u32 {
        match self {
            StreamMessage::Data(len) => word(DATA, len),
            StreamMessage::Credit(limit) => word(CREDIT, limit),
            StreamMessage::Iomap(index) => word(IOMAP, index),
            StreamMessage::Disconnect => word(CONTROL, DISCONNECT),
            StreamMessage::Keepalive => word(CONTROL, KEEPALIVE),
            StreamMessage::Shutdown => word(CONTROL, SHUTDOWN),
            StreamMessage::Unknown(bits) => bits,
        }
    }

    /// The message in 32 bits of host order.
    pub(crate) fn decode(bits: u32) -> StreamMessage {
        let data = bits & MAX_DATA;
        match (bits >> SHIFT, data) {
            (DATA, len) => StreamMessage::Data(len),
            (CREDIT, limit) => StreamMessage::Credit(limit),
            (IOMAP, index) => StreamMessage::Iomap(index),
            (CONTROL, DISCONNECT) => StreamMessage::Disconnect,
            (CONTROL, KEEPALIVE) => StreamMessage::Keepalive,
            (CONTROL, SHUTDOWN) => StreamMessage::Shutdown,
            _ => StreamMessage::Unknown(bits),
        }
    }
}

fn word(kind: u32, data: u32) -> u32 {
    kind << SHIFT | data & MAX_DATA
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_as_a_peer_of_linux_sends_them() {
        let table = [
            (0x8000_0180, StreamMessage::Credit(384)),
            (0x0000_0010, StreamMessage::Data(16)),
            (0x0000_0064, StreamMessage::Data(100)),
            (0xe000_0000, StreamMessage::Disconnect),
            (0xe000_0001, StreamMessage::Keepalive),
            (0xe000_0002, StreamMessage::Shutdown),
            (0xc000_0003, StreamMessage::Iomap(3)),
            (0x2000_0001, StreamMessage::Unknown(0x2000_0001)),
            (0xe000_0003, StreamMessage::Unknown(0xe000_0003)),
        ];
        for (bits, message) in table {
            assert_eq!(StreamMessage::decode(bits), message);
            assert_eq!(message.encode(), bits);
        }
    }
}

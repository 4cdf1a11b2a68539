//! Frames: the messages between two queue pairs on one host.
//!
//! A frame is a head of 28 bytes and a body. It travels in a lane: in order, whole, never lost. So it has no
//! checksum, no path MTU and no PSN, only the number of the request.
//!
//! ```text
//!  0     1      2      4     8     12       16     20      24      28
//!  kind  flags  code   src   dst   request  ack    length  value   body ...
//! ```

use wire::Qpn;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 28;

/// Bytes in front of the data of a WRITE frame: 8 of address, 4 of key.
pub(crate) const WRITE_PREFIX_BYTES: usize = 12;

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// Part of a SEND.
    Send = 1,
    /// Part of a WRITE that the peer executes. The body begins with address and key of the part.
    Write = 2,
    /// A WRITE with immediate data was executed; it uses a receive WQE.
    Notice = 3,
    /// A READ that the peer executes. The body is the address.
    Read = 4,
    /// An atomic, ATOMIC WRITE or FLUSH that the peer executes; see [`RemoteOp`](super::remote_op::RemoteOp).
    RemoteOp = 5,
    /// The sender tried an access that the receiver's memory refused: the receiver's queue pair fails, too.
    Refused = 6,
    /// A whole packet, for a UD queue pair. Nobody answers it.
    Datagram = 7,
    /// A READ of an object at one moment that the peer executes. The body is the address and the mask of the lock.
    ObjectRead = 8,
    /// A call that the peer carries out. The body is the address and the request.
    Call = 9,
    /// Every request before `ack` was executed.
    Ack = 16,
    /// No receive WQE for `request`; `code` is the timer (table 45).
    RnrNak = 17,
    /// `request` was refused; `code` is the NAK's.
    Nak = 18,
    /// No queue pair here takes `request` (yet).
    NotReady = 19,
    /// Part of the answer to a READ.
    Data = 20,
    /// The result of a remote operation.
    Result = 21,
    /// The lent memory of `request` cannot be reached from here: send copies.
    SendCopies = 22,
    /// The reply to a request of Longarm's own, in whole.
    Reply = 23,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        const ALL: [FrameKind; 17] = [
            FrameKind::Send,
            FrameKind::Write,
            FrameKind::Notice,
            FrameKind::Read,
            FrameKind::RemoteOp,
            FrameKind::Refused,
            FrameKind::Datagram,
            FrameKind::ObjectRead,
            FrameKind::Call,
            FrameKind::Ack,
            FrameKind::RnrNak,
            FrameKind::Nak,
            FrameKind::NotReady,
            FrameKind::Data,
            FrameKind::Result,
            FrameKind::SendCopies,
            FrameKind::Reply,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether its sender expects [`FrameKind::NotReady`] if no queue pair takes it.
    #[inline]
    pub fn wants_answer(self) -> bool {
        self.is_request() && !matches!(self, FrameKind::Refused | FrameKind::Datagram)
    }

    /// Bytes of the body in front of the data of a message.
    #[inline]
    pub fn prefix_bytes(self) -> usize {
        match self {
            FrameKind::Write => WRITE_PREFIX_BYTES,
            FrameKind::Call => CALL_PREFIX_BYTES,
            _ => 0,
        }
    }

    /// Whether it is for the responder.
    #[inline]
    pub fn is_request(self) -> bool {
        (self as u8) < FrameKind::Ack as u8
    }
}

/// Bytes in front of the request of a call: its address.
pub(crate) const CALL_PREFIX_BYTES: usize = 8;

bitflags::bitflags! {
    /// Flags of a frame.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct FrameFlags: u8 {
        /// It begins a message.
        const FIRST = 1;
        /// It ends one.
        const LAST = 1 << 1;
        /// `value` is immediate data.
        const IMM = 1 << 2;
        /// `value` is a key to invalidate.
        const INVALIDATE = 1 << 3;
        /// The sender asks for an event.
        const SOLICITED = 1 << 4;
        /// The body names the bytes in the sender's memory instead of carrying them.
        const LENT = 1 << 5;
    }
}

/// The head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHead {
    /// Its kind.
    pub kind: FrameKind,
    /// Flags of the frame.
    pub flags: FrameFlags,
    /// Code of a NAK, timer of an RNR NAK; in a request, a number that `NotReady` gives back.
    pub code: u16,
    /// The sender.
    pub src: Qpn,
    /// The receiver.
    pub dst: Qpn,
    /// The number of the request that it is, or that it answers; wraps.
    pub request: u32,
    /// Number of requests of the peer that were executed; wraps.
    pub ack: u32,
    /// Length of the whole message in bytes.
    pub len_bytes: u32,
    /// Immediate data or key.
    pub value: u32,
}

impl FrameHead {
    /// A head with nothing but its kind and its ends.
    pub fn new(kind: FrameKind, src: Qpn, dst: Qpn) -> FrameHead {
        FrameHead { kind, flags: FrameFlags::empty(), code: 0, src, dst, request: 0, ack: 0, len_bytes: 0, value: 0 }
    }

    /// The answer to a request that no queue pair here takes.
    pub fn not_ready(&self) -> FrameHead {
        let (code, request) = (self.code, self.request);
        FrameHead { code, request, ..FrameHead::new(FrameKind::NotReady, self.dst, self.src) }
    }

    /// The bytes of the head.
    #[inline]
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let words = [
            u32::from_le_bytes([self.kind as u8, self.flags.bits(), self.code as u8, (self.code >> 8) as u8]),
            self.src.get(),
            self.dst.get(),
            self.request,
            self.ack,
            self.len_bytes,
            self.value,
        ];
        let mut bytes = [0; HEAD_BYTES];
        for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// The head from its bytes; `None` if they are not a valid head.
    #[inline]
    pub fn decode(bytes: &[u8; HEAD_BYTES]) -> Option<FrameHead> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let qpn = |at: usize| (word(at) <= Qpn::MULTICAST.get()).then(|| Qpn::new(word(at)));
        Some(FrameHead {
            kind: FrameKind::from_byte(bytes[0])?,
            flags: FrameFlags::from_bits(bytes[1])?,
            code: u16::from_le_bytes([bytes[2], bytes[3]]),
            src: qpn(4)?,
            dst: qpn(8)?,
            request: word(12),
            ack: word(16),
            len_bytes: word(20),
            value: word(24),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_its_bytes() {
        let head = FrameHead {
            flags: FrameFlags::FIRST | FrameFlags::IMM,
            code: 0x1234,
            request: 7,
            ack: u32::MAX,
            len_bytes: 1 << 31,
            value: 0xdead_beef,
            ..FrameHead::new(FrameKind::Send, Qpn::new(0x012345), Qpn::new(0xfffffe))
        };
        assert_eq!(FrameHead::decode(&head.encode()), Some(head));
    }

    #[test]
    fn any_bytes_are_a_head_or_none() {
        let mut state = 1u64;
        let mut heads = 0;
        for _ in 0..100_000 {
            let mut bytes = [0; HEAD_BYTES];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 56) as u8 & 0x1f;
            }
            (bytes[7], bytes[11]) = (0, bytes[11] & 1);
            if let Some(head) = FrameHead::decode(&bytes) {
                assert_eq!(head.encode(), bytes);
                heads += 1;
            }
        }
        assert!(heads > 1000, "{heads}");
    }
}

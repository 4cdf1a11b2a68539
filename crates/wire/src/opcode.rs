//! Opcodes, and the one table of their meanings. Sources are IB specification 9.2, Annex A14 for
//! XRC, Annex A17 for CNP, and Annex A19 for FLUSH and ATOMIC WRITE. Some are Longarm's own, from
//! the range that is reserved for manufacturers (0xc0 to 0xff).
//!
//! The high three bits name the service, the low five the operation and the packet's
//! position in its message. The table says which headers follow, whether there is a payload and
//! whether the packet uses a receive WQE. No other code compares opcode numbers.

mod check;
mod table;

#[cfg(test)]
mod tests;

use core::fmt;

use crate::header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Cookie, Deth, Feth, Ieth, ImmDt, ObjectEth, Piggyback, ReplyEth, Reth,
    Sack, XrcEth,
};

/// The first byte of a packet. Every value is legal here; those without an
/// [`info`](Opcode::info) have no meaning to us.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Opcode(pub u8);

/// The bits of an opcode that name its service.
const SERVICE: u8 = 0xe0;
/// The service bits of the opcodes that are Longarm's own.
const OWN: u8 = 0xc0;

/// The transport service that an opcode belongs to, numbered as its high three bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum TransportService {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram: has a number, but no opcodes here.
    Rd = 2,
    /// Unreliable datagram.
    Ud = 3,
    /// Congestion notification.
    Cnp = 4,
    /// Extended reliable connection.
    Xrc = 5,
    /// Manufacturer specific: Longarm's own, for RC; some for XRC, too.
    Own = 6,
}

/// The operation that a packet belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Operation {
    /// Part of a SEND.
    Send,
    /// Part of an RDMA WRITE.
    Write,
    /// An RDMA READ request.
    ReadRequest,
    /// Part of the response to an RDMA READ.
    ReadResponse,
    /// An ACK or NAK.
    Acknowledge,
    /// Longarm's own: an ACK with a bitmap of the packets that arrived ([`Sack`]).
    SelectiveAcknowledge,
    /// The response to an atomic request.
    AtomicAcknowledge,
    /// An atomic compare-and-swap request.
    CompareSwap,
    /// An atomic fetch-and-add request.
    FetchAdd,
    /// A FLUSH request; the response is a READ response of no bytes.
    Flush,
    /// An ATOMIC WRITE request; the response is a READ response of no bytes.
    AtomicWrite,
    /// A congestion notification.
    Cnp,
    /// Longarm's own: a READ of an object that its responder carries out at one moment.
    ObjectRead,
    /// Longarm's own: a call that the responder's device carries out.
    Call,
    /// Longarm's own: part of the reply to such a request.
    Reply,
}

/// The position of a packet in its message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Position {
    /// The first of several.
    First,
    /// Between first and last.
    Middle,
    /// The last of several.
    Last,
    /// The message is this one packet.
    Only,
}

bitflags::bitflags! {
    /// Extension headers, lowest bit first in the packet.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct HeaderSet: u16 {
        /// [`Deth`]
        const DETH = 1;
        /// [`XrcEth`]
        const XRCETH = 1 << 1;
        /// [`Feth`]
        const FETH = 1 << 2;
        /// [`Reth`]
        const RETH = 1 << 3;
        /// [`AtomicEth`]
        const ATOMIC_ETH = 1 << 4;
        /// [`Aeth`]
        const AETH = 1 << 5;
        /// [`AtomicAckEth`]
        const ATOMIC_ACK = 1 << 6;
        /// [`ImmDt`]
        const IMM = 1 << 7;
        /// [`Ieth`]
        const IETH = 1 << 8;
        /// [`Cnp`]
        const CNP = 1 << 9;
        /// [`Sack`]
        const SACK = 1 << 10;
        /// [`Piggyback`]
        const PIGGYBACK = 1 << 11;
        /// [`Cookie`]
        const COOKIE = 1 << 12;
        /// [`ObjectEth`]
        const OBJECT = 1 << 13;
        /// [`ReplyEth`]
        const REPLY = 1 << 14;
    }
}

/// Length of each extension header, by bit number.
const HEADER_LENS: [usize; 15] = [
    Deth::LEN,
    XrcEth::LEN,
    Feth::LEN,
    Reth::LEN,
    AtomicEth::LEN,
    Aeth::LEN,
    AtomicAckEth::LEN,
    ImmDt::LEN,
    Ieth::LEN,
    Cnp::LEN,
    Sack::LEN,
    Piggyback::LEN,
    Cookie::LEN,
    ObjectEth::LEN,
    ReplyEth::LEN,
];

impl HeaderSet {
    /// Length of all headers of the set together.
    pub const fn len_bytes(self) -> usize {
        let mut sum = 0;
        let mut bit = 0;
        while bit < HEADER_LENS.len() {
            if self.bits() >> bit & 1 != 0 {
                sum += HEADER_LENS[bit];
            }
            bit += 1;
        }
        sum
    }
}

/// An opcode's row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpcodeInfo {
    /// Its name, like `RC_SEND_FIRST`.
    pub name: &'static str,
    /// The transport service.
    pub service: TransportService,
    /// The operation.
    pub operation: Operation,
    /// The packet's position in its message.
    pub position: Position,
    /// The extension headers after the BTH.
    pub headers: HeaderSet,
    /// Whether a payload may follow.
    pub payload: bool,
    /// Whether the receiver takes a receive WQE when this packet arrives.
    pub uses_recv_wqe: bool,
    /// The offset of each extension header in the packet, by bit number; 0: not present.
    offsets: [u8; HEADER_LENS.len()],
    /// Length of BTH and extension headers.
    header_len_bytes: u8,
}

impl Opcode {
    /// The opcode's row of the table; `None` if the opcode is unknown.
    #[inline]
    pub fn info(self) -> Option<&'static OpcodeInfo> {
        table::TABLE[usize::from(self.0)].as_ref()
    }

    /// Longarm's own form of a request that is one packet and carries an ACK, as a [`Piggyback`];
    /// `None` if the request has no such form. Only a peer that has announced support may get one.
    #[inline]
    pub fn with_acknowledge(self) -> Option<Opcode> {
        let own = Opcode(self.0 | OWN);
        own.info().filter(|info| self.0 & SERVICE == 0 && info.headers.contains(HeaderSet::PIGGYBACK)).map(|_| own)
    }

    /// The inverse of [`with_acknowledge`](Opcode::with_acknowledge): the plain request.
    pub fn without_acknowledge(self) -> Option<Opcode> {
        let request = Opcode(self.0 & !SERVICE);
        (request.with_acknowledge() == Some(self)).then_some(request)
    }

    /// Every known opcode, by number.
    pub fn all() -> impl Iterator<Item = Opcode> {
        (0..=u8::MAX).map(Opcode).filter(|opcode| opcode.info().is_some())
    }
}

impl OpcodeInfo {
    /// Length of the BTH and the extension headers.
    #[inline]
    pub const fn header_len_bytes(&self) -> usize {
        self.header_len_bytes as usize
    }

    /// Whether a requester sends it. All others are responses or CNPs.
    pub const fn is_request(&self) -> bool {
        use Operation::{AtomicWrite, Call, CompareSwap, FetchAdd, Flush, ObjectRead, ReadRequest, Send, Write};
        matches!(
            self.operation,
            Send | Write | ReadRequest | CompareSwap | FetchAdd | Flush | AtomicWrite | ObjectRead | Call
        )
    }

    /// Whether its responder changes memory for it, beside that of a receive WQE.
    pub const fn changes_memory(&self) -> bool {
        use Operation::{AtomicWrite, Call, CompareSwap, FetchAdd, Write};
        matches!(self.operation, Write | CompareSwap | FetchAdd | AtomicWrite | Call)
    }

    /// Whether a responder sends it; the completer handles it.
    pub const fn is_response(&self) -> bool {
        use Operation::{Acknowledge, AtomicAcknowledge, ReadResponse, Reply, SelectiveAcknowledge};
        matches!(self.operation, ReadResponse | Acknowledge | AtomicAcknowledge | SelectiveAcknowledge | Reply)
    }

    /// Whether it is a request of Longarm's own that a reply answers (docs/extensions.md).
    pub const fn is_extension(&self) -> bool {
        matches!(self.operation, Operation::ObjectRead | Operation::Call)
    }

    /// Whether a message starts with this packet.
    pub const fn starts_message(&self) -> bool {
        matches!(self.position, Position::First | Position::Only)
    }

    /// Whether a message ends with this packet.
    pub const fn ends_message(&self) -> bool {
        matches!(self.position, Position::Last | Position::Only)
    }

    /// The offset of a header in the packet. `header` is one bit.
    #[inline]
    pub(crate) fn offset_of(&self, header: HeaderSet) -> Option<usize> {
        let bit = header.bits().trailing_zeros() as usize;
        match self.offsets.get(bit) {
            None | Some(0) => None,
            Some(&offset) => Some(usize::from(offset)),
        }
    }

    /// Completes a row of the table: computes all fields that follow from the arguments.
    const fn new(
        name: &'static str,
        code: u8,
        operation: Operation,
        position: Position,
        headers: HeaderSet,
    ) -> OpcodeInfo {
        OpcodeInfo {
            name,
            service: service_of(code),
            operation,
            position,
            headers,
            payload: carries_payload(operation),
            uses_recv_wqe: takes_recv_wqe(operation, position, headers),
            offsets: offsets_of(headers),
            header_len_bytes: (Bth::LEN + headers.len_bytes()) as u8,
        }
    }
}

/// # Panics
/// If a code has no service. The table is a constant, so the panic is a compile error.
const fn service_of(code: u8) -> TransportService {
    match code >> 5 {
        0 => TransportService::Rc,
        1 => TransportService::Uc,
        2 => TransportService::Rd,
        3 => TransportService::Ud,
        4 => TransportService::Cnp,
        5 => TransportService::Xrc,
        6 => TransportService::Own,
        _ => panic!("this opcode has no service"),
    }
}

const fn carries_payload(operation: Operation) -> bool {
    use Operation::{AtomicWrite, Call, ReadResponse, Reply, Send, Write};
    matches!(operation, Send | Write | ReadResponse | AtomicWrite | Call | Reply)
}

/// The first packet of a SEND takes a receive WQE; of a WRITE with immediate, the last.
const fn takes_recv_wqe(operation: Operation, position: Position, headers: HeaderSet) -> bool {
    match operation {
        Operation::Send => matches!(position, Position::First | Position::Only),
        Operation::Write => headers.contains(HeaderSet::IMM),
        _ => false,
    }
}

const fn offsets_of(headers: HeaderSet) -> [u8; HEADER_LENS.len()] {
    let mut offsets = [0; HEADER_LENS.len()];
    let mut next = Bth::LEN;
    let mut bit = 0;
    while bit < HEADER_LENS.len() {
        if headers.bits() >> bit & 1 != 0 {
            offsets[bit] = next as u8;
            next += HEADER_LENS[bit];
        }
        bit += 1;
    }
    offsets
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Some(info) => f.write_str(info.name),
            None => write!(f, "{:#04x}", self.0),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({self})")
    }
}

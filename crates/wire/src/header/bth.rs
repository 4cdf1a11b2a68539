//! Base transport header: the first 12 bytes of every packet (IB specification 9.2).

use crate::bytes::{put, put_u24, u16_at, u24_at};
use crate::header::Mark;
use crate::id::{PKey, Psn, Qpn};
use crate::opcode::Opcode;

/// The base transport header.
///
/// ```text
///  byte 0        1                  2..4    4             5..8       8               9..12
///  | opcode | SE M pad(2) TVer(4) | P_Key | F B resv(6) | dest QP | A reserved(7) | PSN |
/// ```
/// The specification has senders clear the reserved bits and receivers ignore them (IB specification 9.2).
/// Longarm uses them to offer selective retransmission and to prove the agreement; see [`Mark`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bth {
    /// Service, operation and position of the packet; it determines the headers that follow.
    pub opcode: Opcode,
    /// SE: the receiver's completion may raise an event.
    pub solicited: bool,
    /// MigReq: the path migration state is "migrated".
    pub migrated: bool,
    /// Bytes of padding after the payload, 0 to 3.
    pub pad: u8,
    /// TVer, 4 bits: 0 is the only defined version.
    pub version: u8,
    /// Partition key.
    pub pkey: PKey,
    /// The packet met congestion (FECN). RoCEv2 uses the IP header's ECN bits instead.
    pub fecn: bool,
    /// Packets in the other direction met congestion (BECN): set in a CNP.
    pub becn: bool,
    /// The receiving queue pair.
    pub dest_qpn: Qpn,
    /// In a request: the responder shall acknowledge soon. In a response the specification gives it no meaning.
    /// There, together with a `mark`, it says that the responder accepts requests that carry an ACK
    /// ([`Opcode::with_acknowledge`]).
    pub ack_req: bool,
    /// The reserved bits. (The ICRC covers only those beside AckReq.)
    pub mark: Mark,
    /// Packet sequence number.
    pub psn: Psn,
}

const SOLICITED: u8 = 0x80;
const MIGRATED: u8 = 0x40;
const PAD_SHIFT: u32 = 4;
const PAD_MASK: u8 = 0x3;
const VERSION_MASK: u8 = 0xf;
const FECN: u8 = 0x80;
const BECN: u8 = 0x40;
const ACK_REQ: u8 = 0x80;

impl Bth {
    /// Bytes on the wire.
    pub const LEN: usize = 12;

    /// Reads every field.
    #[inline]
    pub fn decode(bytes: &[u8; Bth::LEN]) -> Bth {
        Bth {
            opcode: Opcode(bytes[0]),
            solicited: bytes[1] & SOLICITED != 0,
            migrated: bytes[1] & MIGRATED != 0,
            pad: pad_of(bytes[1]),
            version: version_of(bytes[1]),
            pkey: PKey(u16_at(bytes, 2)),
            fecn: bytes[4] & FECN != 0,
            becn: bytes[4] & BECN != 0,
            dest_qpn: Qpn::new(u24_at(bytes, 5)),
            ack_req: bytes[8] & ACK_REQ != 0,
            mark: Mark::from_bytes(bytes[4], bytes[8]),
            psn: Psn::new(u24_at(bytes, 9)),
        }
    }

    /// Writes every field. Only the low 2 bits of `pad` and the low 4 of `version` fit.
    #[inline]
    pub fn encode(&self) -> [u8; Bth::LEN] {
        let mut bytes = [0; Bth::LEN];
        bytes[0] = self.opcode.0;
        bytes[1] = flag(self.solicited, SOLICITED)
            | flag(self.migrated, MIGRATED)
            | (self.pad & PAD_MASK) << PAD_SHIFT
            | self.version & VERSION_MASK;
        put(&mut bytes, 2, self.pkey.0.to_be_bytes());
        bytes[4] = flag(self.fecn, FECN) | flag(self.becn, BECN) | self.mark.high();
        put_u24(&mut bytes, 5, self.dest_qpn.get());
        bytes[8] = flag(self.ack_req, ACK_REQ) | self.mark.low();
        put_u24(&mut bytes, 9, self.psn.get());
        bytes
    }
}

/// The pad count in the header's second byte.
#[inline]
pub(crate) const fn pad_of(flags: u8) -> u8 {
    flags >> PAD_SHIFT & PAD_MASK
}

/// The header version in the header's second byte.
#[inline]
pub(crate) const fn version_of(flags: u8) -> u8 {
    flags & VERSION_MASK
}

#[inline]
const fn flag(set: bool, bit: u8) -> u8 {
    if set { bit } else { 0 }
}

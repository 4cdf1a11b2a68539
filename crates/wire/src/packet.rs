//! The view over a packet's bytes. It checks them once, then reads fields at their offsets.
//!
//! It covers BTH to pad; the ICRC belongs to [`icrc`](crate::icrc). It checks the form of one
//! packet; the transport checks whether the packet fits a queue pair.

#[cfg(test)]
mod tests;

use crate::extensions::Extensions;
use crate::header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Cookie, Deth, Feth, Ieth, ImmDt, ObjectEth, Piggyback, ReplyEth, Reth,
    Sack, XrcEth, bth,
};
use crate::id::{Psn, Qpn, RKey};
use crate::opcode::{HeaderSet, Opcode, OpcodeInfo};

/// The reason why [`Packet::parse`] refuses bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end before the headers that the opcode announces.
    #[error("{have} bytes do not hold the {need} bytes of headers")]
    Truncated {
        /// Bytes of headers that the opcode has.
        need: usize,
        /// Bytes that were given.
        have: usize,
    },
    /// The opcode is not in the table.
    #[error("unknown opcode {0}")]
    UnknownOpcode(Opcode),
    /// The transport header version is not 0.
    #[error("unknown transport header version {0}")]
    UnknownVersion(u8),
    /// The pad count exceeds the bytes after the headers.
    #[error("{pad} bytes of padding in {body} bytes of payload")]
    PadExceedsPayload {
        /// The pad count.
        pad: u8,
        /// Bytes after the headers.
        body: usize,
    },
    /// The padding does not fill the payload up to a multiple of four bytes.
    #[error("the payload with its padding has {0} bytes, not a multiple of four")]
    Unaligned(usize),
    /// Bytes follow although the opcode has no payload.
    #[error("{0} bytes follow an opcode without payload")]
    UnexpectedPayload(usize),
}

/// A packet from BTH to pad, whose lengths [`Packet::parse`] has checked.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    bytes: &'a [u8],
    info: &'static OpcodeInfo,
}

impl<'a> Packet<'a> {
    /// Checks bytes from BTH to pad, without the ICRC.
    ///
    /// # Errors
    /// The bytes are too short for the opcode's headers, the opcode or version is unknown, or pad
    /// and payload disagree (IB specification 9.2).
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Packet<'a>, DecodeError> {
        let &[opcode, flags, ..] = bytes else {
            return Err(truncated(Bth::LEN, bytes));
        };
        let opcode = Opcode(opcode);
        let info = opcode.info().ok_or(DecodeError::UnknownOpcode(opcode))?;
        let header_len = info.header_len_bytes();
        let Some(body) = bytes.len().checked_sub(header_len) else {
            return Err(truncated(header_len, bytes));
        };
        match bth::version_of(flags) {
            0 => {}
            version => return Err(DecodeError::UnknownVersion(version)),
        }
        check_body(info, body, bth::pad_of(flags))?;
        Ok(Packet { bytes, info })
    }

    /// All bytes of the packet, BTH to pad.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The base transport header.
    #[inline]
    pub fn bth(&self) -> Bth {
        Bth::decode(self.base())
    }

    /// The opcode; it is in the table.
    #[inline]
    pub fn opcode(&self) -> Opcode {
        Opcode(self.bytes[0])
    }

    /// The opcode's row of the table.
    #[inline]
    pub fn info(&self) -> &'static OpcodeInfo {
        self.info
    }

    /// The packet sequence number.
    #[inline]
    pub fn psn(&self) -> Psn {
        self.bth().psn
    }

    /// The receiving queue pair.
    #[inline]
    pub fn dest_qpn(&self) -> Qpn {
        self.bth().dest_qpn
    }

    /// The RDMA header. As for all headers below: `None` if the opcode has none.
    #[inline]
    pub fn reth(&self) -> Option<Reth> {
        self.header(HeaderSet::RETH).map(Reth::decode)
    }

    /// The ACK header.
    #[inline]
    pub fn aeth(&self) -> Option<Aeth> {
        self.header(HeaderSet::AETH).map(Aeth::decode)
    }

    /// The header of an atomic request.
    #[inline]
    pub fn atomic_eth(&self) -> Option<AtomicEth> {
        self.header(HeaderSet::ATOMIC_ETH).map(AtomicEth::decode)
    }

    /// The header of an atomic response.
    #[inline]
    pub fn atomic_ack(&self) -> Option<AtomicAckEth> {
        self.header(HeaderSet::ATOMIC_ACK).map(AtomicAckEth::decode)
    }

    /// Immediate data, in host order.
    #[inline]
    pub fn imm(&self) -> Option<u32> {
        self.header(HeaderSet::IMM).map(|bytes| ImmDt::decode(bytes).0)
    }

    /// The key to invalidate.
    #[inline]
    pub fn ieth(&self) -> Option<RKey> {
        self.header(HeaderSet::IETH).map(|bytes| Ieth::decode(bytes).0)
    }

    /// The datagram header.
    #[inline]
    pub fn deth(&self) -> Option<Deth> {
        self.header(HeaderSet::DETH).map(Deth::decode)
    }

    /// The XRC header.
    #[inline]
    pub fn xrceth(&self) -> Option<XrcEth> {
        self.header(HeaderSet::XRCETH).map(XrcEth::decode)
    }

    /// The FLUSH header.
    #[inline]
    pub fn feth(&self) -> Option<Feth> {
        self.header(HeaderSet::FETH).map(Feth::decode)
    }

    /// The bitmap of a selective ACK.
    #[inline]
    pub fn sack(&self) -> Option<Sack> {
        self.header(HeaderSet::SACK).map(Sack::decode)
    }

    /// The ACK that a request carries.
    #[inline]
    pub fn piggyback(&self) -> Option<Piggyback> {
        self.header(HeaderSet::PIGGYBACK).map(Piggyback::decode)
    }

    /// The cookie in a packet with an opcode of Longarm's own.
    #[inline]
    pub fn cookie(&self) -> Option<Cookie> {
        self.header(HeaderSet::COOKIE).map(Cookie::decode)
    }

    /// The header of a READ of an object.
    #[inline]
    pub fn object(&self) -> Option<ObjectEth> {
        self.header(HeaderSet::OBJECT).map(ObjectEth::decode)
    }

    /// The header of a part of a reply.
    #[inline]
    pub fn reply(&self) -> Option<ReplyEth> {
        self.header(HeaderSet::REPLY).map(ReplyEth::decode)
    }

    /// The bytes after the BTH of a congestion notification.
    #[inline]
    pub fn cnp(&self) -> Option<Cnp> {
        self.header(HeaderSet::CNP).map(Cnp::decode)
    }

    /// All extension headers.
    pub fn extensions(&self) -> Extensions {
        Extensions {
            deth: self.deth(),
            xrceth: self.xrceth(),
            feth: self.feth(),
            reth: self.reth(),
            atomic_eth: self.atomic_eth(),
            aeth: self.aeth(),
            atomic_ack: self.atomic_ack(),
            imm: self.header(HeaderSet::IMM).map(ImmDt::decode),
            ieth: self.header(HeaderSet::IETH).map(Ieth::decode),
            cnp: self.cnp(),
            sack: self.sack(),
            piggyback: self.piggyback(),
            cookie: self.cookie(),
            object: self.object(),
            reply: self.reply(),
        }
    }

    /// The payload, without its padding.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        let pad = usize::from(bth::pad_of(self.bytes[1]));
        &self.bytes[self.info.header_len_bytes()..self.bytes.len() - pad]
    }

    #[inline]
    fn base(&self) -> &'a [u8; Bth::LEN] {
        // `parse` checked the length of the headers, and every opcode's headers begin with the BTH.
        self.bytes.first_chunk().expect("a packet has a BTH")
    }

    #[inline]
    fn header<const LEN: usize>(&self, header: HeaderSet) -> Option<&'a [u8; LEN]> {
        let offset = self.info.offset_of(header)?;
        self.bytes.get(offset..)?.first_chunk()
    }
}

/// Checks the length of payload and padding.
#[inline]
fn check_body(info: &OpcodeInfo, body: usize, pad: u8) -> Result<(), DecodeError> {
    if !info.payload && body != 0 {
        return Err(DecodeError::UnexpectedPayload(body));
    }
    if usize::from(pad) > body {
        return Err(DecodeError::PadExceedsPayload { pad, body });
    }
    if !body.is_multiple_of(4) {
        return Err(DecodeError::Unaligned(body));
    }
    Ok(())
}

#[cold]
fn truncated(need: usize, bytes: &[u8]) -> DecodeError {
    DecodeError::Truncated { need, have: bytes.len() }
}

//! The extension headers of one packet as a plain value: decoded from a [`Packet`](crate::Packet),
//! and encoded back to bytes. Tools, captures and tests use it; a fast path writes
//! the one or two headers that it needs itself.

use crate::header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Cookie, Deth, Feth, Ieth, ImmDt, ObjectEth, Piggyback, ReplyEth, Reth,
    Sack, XrcEth,
};
use crate::opcode::{HeaderSet, OpcodeInfo};

/// The headers between BTH and payload, in the order of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extensions {
    /// UD: the sending queue pair and the queue key.
    pub deth: Option<Deth>,
    /// XRC: the shared receive queue that receives.
    pub xrceth: Option<XrcEth>,
    /// FLUSH: placement and selectivity.
    pub feth: Option<Feth>,
    /// WRITE, READ, FLUSH: the remote memory.
    pub reth: Option<Reth>,
    /// Atomic request.
    pub atomic_eth: Option<AtomicEth>,
    /// ACK, NAK or READ response.
    pub aeth: Option<Aeth>,
    /// Response to an atomic request.
    pub atomic_ack: Option<AtomicAckEth>,
    /// Immediate data.
    pub imm: Option<ImmDt>,
    /// Key to invalidate.
    pub ieth: Option<Ieth>,
    /// Congestion notification.
    pub cnp: Option<Cnp>,
    /// Bitmap of a selective ACK.
    pub sack: Option<Sack>,
    /// ACK that travels inside a request.
    pub piggyback: Option<Piggyback>,
    /// Proof that the packet comes from the connected peer.
    pub cookie: Option<Cookie>,
    /// READ of an object: the mask of its lock.
    pub object: Option<ObjectEth>,
    /// Part of a reply: the length of all of it.
    pub reply: Option<ReplyEth>,
}

impl Extensions {
    /// The set of headers that are present.
    pub fn set(&self) -> HeaderSet {
        let mut set = HeaderSet::empty();
        set.set(HeaderSet::DETH, self.deth.is_some());
        set.set(HeaderSet::XRCETH, self.xrceth.is_some());
        set.set(HeaderSet::FETH, self.feth.is_some());
        set.set(HeaderSet::RETH, self.reth.is_some());
        set.set(HeaderSet::ATOMIC_ETH, self.atomic_eth.is_some());
        set.set(HeaderSet::AETH, self.aeth.is_some());
        set.set(HeaderSet::ATOMIC_ACK, self.atomic_ack.is_some());
        set.set(HeaderSet::IMM, self.imm.is_some());
        set.set(HeaderSet::IETH, self.ieth.is_some());
        set.set(HeaderSet::CNP, self.cnp.is_some());
        set.set(HeaderSet::SACK, self.sack.is_some());
        set.set(HeaderSet::PIGGYBACK, self.piggyback.is_some());
        set.set(HeaderSet::COOKIE, self.cookie.is_some());
        set.set(HeaderSet::OBJECT, self.object.is_some());
        set.set(HeaderSet::REPLY, self.reply.is_some());
        set
    }

    /// Whether the headers are exactly those of an opcode.
    pub fn fit(&self, info: &OpcodeInfo) -> bool {
        self.set() == info.headers
    }

    /// Appends a whole packet without ICRC: BTH, headers, payload, zero padding. The pad
    /// count is computed; `bth.pad` is ignored.
    pub fn encode_packet(&self, bth: &Bth, payload: &[u8], out: &mut Vec<u8>) {
        let pad = payload.len().wrapping_neg() % 4;
        let bth = Bth { pad: pad as u8, ..*bth };
        out.extend_from_slice(&bth.encode());
        self.encode(out);
        out.extend_from_slice(payload);
        out.extend_from_slice(&[0; 3][..pad]);
    }

    /// Appends the headers only.
    pub fn encode(&self, out: &mut Vec<u8>) {
        append(out, self.deth.map(|header| header.encode()));
        append(out, self.xrceth.map(|header| header.encode()));
        append(out, self.feth.map(|header| header.encode()));
        append(out, self.reth.map(|header| header.encode()));
        append(out, self.atomic_eth.map(|header| header.encode()));
        append(out, self.aeth.map(|header| header.encode()));
        append(out, self.atomic_ack.map(|header| header.encode()));
        append(out, self.imm.map(|header| header.encode()));
        append(out, self.ieth.map(|header| header.encode()));
        append(out, self.cnp.map(|header| header.encode()));
        append(out, self.sack.map(|header| header.encode()));
        append(out, self.piggyback.map(|header| header.encode()));
        append(out, self.cookie.map(|header| header.encode()));
        append(out, self.object.map(|header| header.encode()));
        append(out, self.reply.map(|header| header.encode()));
    }
}

fn append<const LEN: usize>(out: &mut Vec<u8>, header: Option<[u8; LEN]>) {
    if let Some(bytes) = header {
        out.extend_from_slice(&bytes);
    }
}

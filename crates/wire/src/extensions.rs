//! The extension headers of one packet as a plain value: what [`Packet`](crate::Packet)
//! views, and the way back to bytes. For tools, captures and tests; a fast path writes
//! the one or two headers that it needs itself.

use crate::header::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Cnp, Cookie, Deth, Feth, Ieth, ImmDt, Piggyback, Reth, Sack, XrcEth,
};
use crate::opcode::{HeaderSet, OpcodeInfo};

/// The headers between BTH and payload, in the order of the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extensions {
    /// UD: who sends.
    pub deth: Option<Deth>,
    /// XRC: which shared receive queue.
    pub xrceth: Option<XrcEth>,
    /// FLUSH: what for.
    pub feth: Option<Feth>,
    /// WRITE, READ, FLUSH: which memory.
    pub reth: Option<Reth>,
    /// Atomic request.
    pub atomic_eth: Option<AtomicEth>,
    /// Answer.
    pub aeth: Option<Aeth>,
    /// Answer to an atomic.
    pub atomic_ack: Option<AtomicAckEth>,
    /// Immediate data.
    pub imm: Option<ImmDt>,
    /// Key to invalidate.
    pub ieth: Option<Ieth>,
    /// Congestion notification.
    pub cnp: Option<Cnp>,
    /// Selective acknowledge.
    pub sack: Option<Sack>,
    /// Acknowledge brought along by a request.
    pub piggyback: Option<Piggyback>,
    /// Proof that the packet comes from the other end.
    pub cookie: Option<Cookie>,
}

impl Extensions {
    /// Which of them there are.
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
        set
    }

    /// Whether these are exactly the headers that an opcode has.
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

    /// Appends the headers alone.
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
    }
}

fn append<const LEN: usize>(out: &mut Vec<u8>, header: Option<[u8; LEN]>) {
    if let Some(bytes) = header {
        out.extend_from_slice(&bytes);
    }
}

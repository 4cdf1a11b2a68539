//! The memory and the receive WQEs that a responder's requests reach: the queue pair's own, or those of an XRC domain.

use wire::{Packet, Position};

use crate::completion::Completion;
use crate::host::{CqSide, Host};
use crate::memory::{Accessor, PdId};
use crate::qp_core::QpCore;
use crate::rc::refusal::RcRefusal;
use crate::wr::RecvWr;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RequestTarget {
    /// The protection domain of remote keys: the queue pair's, for XRC that of the shared receive queue.
    pub(super) pd: PdId,
    /// The protection domain of receive buffers.
    pub(super) recv_pd: PdId,
    /// XRC: the shared receive queue of the message that is arriving.
    xrc_srq: u32,
}

impl RequestTarget {
    pub(super) fn new(core: &QpCore) -> RequestTarget {
        RequestTarget { pd: core.pd, recv_pd: core.recv_pd, xrc_srq: 0 }
    }

    /// Checks that every request of a message names the same shared receive queue, and that the queue exists. It
    /// tells the protection domain of keys.
    pub(super) fn check_xrc_srq(&mut self, packet: &Packet<'_>, host: &mut impl Host) -> Result<(), RcRefusal> {
        let srq = packet.xrceth().ok_or(RcRefusal::Invalid("an XRC request without its header"))?.srq;
        if !packet.info().starts_message() && srq != self.xrc_srq {
            return Err(RcRefusal::Invalid("a message for more than one shared receive queue"));
        }
        self.pd = host.xrc_srq(srq).ok_or(RcRefusal::NoSrq)?;
        self.recv_pd = self.pd;
        self.xrc_srq = srq;
        Ok(())
    }

    pub(super) fn accessor(&self, core: &QpCore) -> Accessor {
        Accessor { pd: self.pd, qpn: core.qpn }
    }

    pub(super) fn take_recv(&self, core: &mut QpCore, host: &mut impl Host) -> Result<RecvWr, RcRefusal> {
        let wr = match core.is_xrc() {
            false => core.take_recv(host),
            true if host.inject_receiver_not_ready() => None,
            true => host.take_xrc_recv(self.xrc_srq),
        };
        wr.ok_or(RcRefusal::NotReady)
    }

    pub(super) fn complete(&self, core: &QpCore, completion: Completion, host: &mut impl Host) {
        match core.is_xrc() {
            false => host.complete(CqSide::Recv, completion),
            true => host.complete_xrc(self.xrc_srq, completion),
        }
    }
}

/// Middle packets are full, last ones not empty, none longer than the path MTU (9.7.4.1.6).
pub(super) fn check_packet_length(core: &QpCore, packet: &Packet<'_>) -> Result<(), RcRefusal> {
    let (len, mtu) = (packet.payload().len(), core.mtu() as usize);
    let fits = match packet.info().position {
        Position::First | Position::Middle => len == mtu,
        Position::Last => (1..=mtu).contains(&len),
        Position::Only => len <= core.longest_single_packet(),
    };
    if fits { Ok(()) } else { Err(RcRefusal::Invalid("a packet whose length does not fit its place in the message")) }
}

pub(super) fn with_notice(completion: Completion, packet: &Packet<'_>, core: &QpCore) -> Completion {
    Completion {
        imm: packet.imm(),
        invalidated: packet.ieth(),
        solicited: packet.bth().solicited,
        src_qpn: core.attr.dest_qpn,
        ..completion
    }
}

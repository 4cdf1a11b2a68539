//! The send queue: WQEs in posting order, each with the PSNs it takes.

use std::collections::VecDeque;

use wire::{Psn, RKey};

use crate::wr::{Payload, RemoteAddr, SendFlags, SendOp, SendWr, UdDestination};

/// Cost in the window of a packet beyond its payload: what a socket buffer keeps for it.
pub(crate) const PACKET_OVERHEAD_BYTES: u64 = 128;

/// One send WQE.
#[derive(Debug)]
pub(crate) struct SendWqe {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) flags: SendFlags,
    pub(crate) payload: Payload,
    pub(crate) datagram: Option<Box<UdDestination>>,
    /// Message length in bytes.
    pub(crate) len_bytes: u32,
    /// First PSN; for READs, of the response.
    pub(crate) first_psn: Psn,
    /// PSNs taken: packets of the message, or of the READ's response. Zero for local operations.
    pub(crate) packets: u32,
    /// Window cost of everything posted before, see `SendQueue::cost_at`.
    pub(crate) cost_before: u64,
    /// The number of receive WQEs of the peer that this and all earlier requests use up.
    pub(crate) recvs_used: u64,
    /// XRC: the peer's shared receive queue.
    pub(crate) xrc_srq: u32,
    /// Local operations only: carried out.
    pub(crate) executed: bool,
    /// WRITEs only: every packet is a WRITE of its own.
    pub(crate) as_single_writes: bool,
    /// The queue pair's own request, to learn about the peer. It has no completion.
    pub(crate) is_inquiry: bool,
}

impl SendWqe {
    /// The PSN after the last.
    pub(crate) fn end_psn(&self) -> Psn {
        self.first_psn.add(self.packets)
    }

    /// PSNs from `psn` to the end: one at least.
    pub(crate) fn packets_from(&self, psn: Psn) -> u32 {
        self.end_psn().distance(psn).max(1) as u32
    }
}

fn packets(op: &SendOp, len_bytes: u32, mtu: u32) -> u32 {
    match op {
        SendOp::LocalInvalidate(_) | SendOp::Bind(_) => 0,
        SendOp::Atomic(..) => 1,
        _ => len_bytes.div_ceil(mtu).max(1),
    }
}

/// The send queue. `head` is the oldest WQE without a completion.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    wqes: VecDeque<SendWqe>,
    next_psn: Psn,
    cost: u64,
    recvs_used: u64,
    /// The queue pair's own requests among them: they take no place.
    inquiries: usize,
}

impl SendQueue {
    /// Empty, and PSNs begin at `first_psn`.
    pub(crate) fn restart(&mut self, first_psn: Psn) {
        *self = SendQueue { next_psn: first_psn, ..SendQueue::default() };
    }

    /// Appends a checked request and gives it its PSNs.
    pub(crate) fn push(&mut self, wr: SendWr, mtu: u32) {
        let len_bytes = wr.payload.len_bytes() as u32;
        let packets = packets(&wr.op, len_bytes, mtu);
        self.recvs_used += u64::from(wr.op.uses_recv());
        self.wqes.push_back(SendWqe {
            wr_id: wr.wr_id,
            op: wr.op,
            flags: wr.flags,
            payload: wr.payload,
            datagram: wr.datagram,
            len_bytes,
            first_psn: self.next_psn,
            packets,
            cost_before: self.cost,
            recvs_used: self.recvs_used,
            xrc_srq: wr.xrc_srq.unwrap_or(0),
            executed: false,
            as_single_writes: false,
            is_inquiry: false,
        });
        debug_assert!(packets <= 1 << 23, "the PSNs of one request are comparable");
        self.next_psn = self.next_psn.add(packets);
        self.cost += u64::from(len_bytes) + u64::from(packets) * PACKET_OVERHEAD_BYTES;
    }

    /// The PSN that the next posted request will start with.
    pub(crate) fn end_psn(&self) -> Psn {
        self.next_psn
    }

    pub(crate) fn len(&self) -> usize {
        self.wqes.len()
    }

    /// Work requests of the program.
    pub(crate) fn posted(&self) -> usize {
        self.wqes.len() - self.inquiries
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wqes.is_empty()
    }

    /// Whether a request of it has packets: an answer will come.
    pub(crate) fn has_packets(&self) -> bool {
        self.wqes.iter().any(|wqe| !wqe.op.is_local())
    }

    pub(crate) fn get(&self, index: usize) -> Option<&SendWqe> {
        self.wqes.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut SendWqe> {
        self.wqes.get_mut(index)
    }

    pub(crate) fn head(&self) -> Option<&SendWqe> {
        self.wqes.front()
    }

    #[inline]
    pub(crate) fn head_mut(&mut self) -> Option<&mut SendWqe> {
        self.wqes.front_mut()
    }

    /// Appends a READ of no bytes: its answer tells whether the peer knows Longarm's extensions.
    pub(crate) fn push_inquiry(&mut self, mtu: u32) {
        let nowhere = RemoteAddr { addr: 0, rkey: RKey(0) };
        let (op, flags, payload) = (SendOp::Read(nowhere), SendFlags::empty(), Payload::empty());
        self.push(SendWr { wr_id: 0, op, flags, payload, datagram: None, xrc_srq: None }, mtu);
        if let Some(wqe) = self.wqes.back_mut() {
            wqe.is_inquiry = true;
            self.inquiries += 1;
        }
    }

    /// Removes the oldest in place, of any kind.
    #[inline]
    pub(crate) fn drop_head(&mut self) {
        drop(self.pop());
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<SendWqe> {
        self.wqes.pop_front().inspect(|wqe| self.inquiries -= usize::from(wqe.is_inquiry))
    }

    /// The number of receive WQEs of the peer that are used up when everything before `una`,
    /// which lies in the head, has arrived. A SEND takes its WQE with the first
    /// packet, a WRITE with immediate with the last.
    pub(crate) fn recvs_used_before(&self, una: Psn) -> u64 {
        match self.head() {
            None => self.recvs_used,
            Some(head) => {
                let begun_send = head.first_psn.before(una) && !matches!(head.op, SendOp::WriteImm(..));
                head.recvs_used - u64::from(head.op.uses_recv() && !begun_send)
            }
        }
    }

    /// Window cost of everything before packet `packet` of WQE `index`.
    pub(crate) fn cost_at(&self, index: usize, packet: u32, mtu: u32) -> u64 {
        match self.wqes.get(index) {
            None => self.cost,
            Some(wqe) => {
                let bytes = (u64::from(packet) * u64::from(mtu)).min(u64::from(wqe.len_bytes));
                wqe.cost_before + bytes + u64::from(packet) * PACKET_OVERHEAD_BYTES
            }
        }
    }
}

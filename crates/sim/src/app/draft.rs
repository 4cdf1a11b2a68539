//! A send work request before it is posted, and the step into the queue and the accounts.

use faults::Rng;
use transport::{CompletionOp, Payload, QpType, SendFlags, SendOp, SendWr, UdDestination};

use crate::area::{AreaPiece, scattered};
use crate::check::sends::{Effect, Posted};
use crate::check::{Outcome, ensure};
use crate::message::{Content, SentMessage, packets};
use crate::node::SRQ_NUMBER;
use crate::world::World;

/// Its effect on the peer's exposed area.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum AreaChange {
    None,
    /// It writes this.
    Bytes {
        offset: usize,
        bytes: Vec<u8>,
    },
    /// It and everything after it must not be carried out.
    Refused,
}

/// A send work request.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) op: SendOp,
    pub(super) payload: Payload,
    pub(super) len: usize,
    pub(super) effect: Effect,
    pub(super) change: AreaChange,
    /// The message, if it uses a receive work request of the receiver.
    pub(super) message: Option<Content>,
    pub(super) only: Option<usize>,
    pub(super) datagram: Option<UdDestination>,
    pub(super) through: Option<usize>,
    pub(super) invalidates: Option<usize>,
    pub(super) fence: bool,
}

impl Draft {
    /// Nothing but an operation and bytes to send.
    pub(super) fn new(op: SendOp, payload: Payload, len: usize) -> Draft {
        Draft {
            op,
            payload,
            len,
            effect: Effect::Plain,
            change: AreaChange::None,
            message: None,
            only: None,
            datagram: None,
            through: None,
            invalidates: None,
            fence: false,
        }
    }

    /// The checker's own account: it must not ask `SendOp::completion_op`, which is under test.
    fn completion_op(&self) -> CompletionOp {
        use transport::AtomicOp;
        match self.op {
            SendOp::Send | SendOp::SendImm(_) | SendOp::SendInvalidate(_) => CompletionOp::Send,
            SendOp::Write(_) | SendOp::WriteImm(..) => CompletionOp::Write,
            SendOp::Read(_) => CompletionOp::Read,
            SendOp::ObjectRead(..) => CompletionOp::ObjectRead,
            SendOp::Call(_) => CompletionOp::Call,
            SendOp::Atomic(_, AtomicOp::CompareSwap { .. }) => CompletionOp::CompareSwap,
            SendOp::Atomic(_, AtomicOp::FetchAdd { .. }) => CompletionOp::FetchAdd,
            SendOp::AtomicWrite(_) => CompletionOp::AtomicWrite,
            SendOp::Flush { .. } => CompletionOp::Flush,
            SendOp::LocalInvalidate(_) => CompletionOp::LocalInvalidate,
            SendOp::Bind(_) => CompletionOp::BindMw,
        }
    }

    fn packets(&self, mtu: transport::Mtu) -> u64 {
        match self.op {
            SendOp::LocalInvalidate(_) | SendOp::Bind(_) => 0,
            SendOp::Atomic(..) => 1,
            _ => packets(self.len, mtu),
        }
    }
}

impl World {
    /// Bytes to send, inline or from anywhere in the source area.
    pub(super) fn content(&self, e: usize, rng: &mut Rng, len: usize) -> Content {
        let end = &self.ends[e];
        if rng.chance(end.spec.inline) && len <= end.spec.caps.max_inline_bytes as usize {
            let mut bytes = vec![0; len];
            rng.fill(&mut bytes);
            return Content::Inline(bytes);
        }
        Content::Pieces(scattered(rng, end.source.len(), len, end.spec.caps.max_send_sge))
    }

    /// Posts it and enters it into all accounts.
    pub(super) fn post(&mut self, e: usize, rng: &mut Rng, draft: Draft) -> Outcome {
        let is_local = matches!(draft.op, SendOp::LocalInvalidate(_) | SendOp::Bind(_));
        let end = &mut self.ends[e];
        end.app.budget_bytes = end.app.budget_bytes.saturating_sub(draft.len as u64);
        let is_last = !self.wants_to_post(e) || self.ends[e].app.ended;
        let signaled = self.draw_signal(e, rng, is_last);
        let solicited = rng.chance(0.3);
        let fence = draft.fence || (!is_local && rng.chance(self.ends[e].spec.fence));
        let number = self.ends[e].posted;
        let posted = Posted {
            number,
            op: draft.completion_op(),
            signaled,
            len_bytes: draft.len as u32,
            at: self.now(),
            effect: draft.effect.clone(),
            through: draft.through,
            invalidates: draft.invalidates,
        };
        self.note(&[7, e as u64, number, posted.op as u64, draft.len as u64], || {
            format!("q{e} posts {number}: {:?} of {} bytes fence {fence}", draft.op, draft.len)
        });
        self.account_message(e, &draft, number, solicited);
        self.account_change(e, &draft, number, fence);
        self.ends[e].sends.post(posted);
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, signaled);
        flags.set(SendFlags::SOLICITED, solicited);
        flags.set(SendFlags::FENCE, fence);
        let wr = SendWr {
            wr_id: number,
            op: draft.op,
            flags,
            payload: draft.payload,
            datagram: draft.datagram.map(Box::new),
            xrc_srq: self.xrc_srq(e),
        };
        let taken = self.with_qp(e, None, |qp, _, host| qp.post_send(wr, host));
        ensure!("a queue with room takes a work request", taken.is_ok(), "number {number}: {taken:?}");
        self.touched(e);
        Ok(())
    }

    /// The shared receive queue of the peer's node, if the connection is an extended one.
    fn xrc_srq(&self, e: usize) -> Option<u32> {
        (self.ends[e].qp.qp_type() == QpType::XrcSend).then_some(SRQ_NUMBER)
    }

    fn account_message(&mut self, e: usize, draft: &Draft, number: u64, solicited: bool) {
        let mtu = self.scenario.mtu;
        let is_write = matches!(draft.op, SendOp::WriteImm(..));
        let end = &mut self.ends[e];
        // The queue pair asks first what the peer knows.
        end.packets += u64::from(draft.op.is_extension() && end.qp.needs_inquiry());
        let (first_packet, packets) = (end.packets, draft.packets(mtu));
        end.posted += 1;
        end.packets += packets;
        let Some(content) = draft.message.clone() else { return };
        let (imm, invalidates) = match draft.op {
            SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => (Some(imm), None),
            SendOp::SendInvalidate(rkey) => (None, Some(rkey)),
            _ => (None, None),
        };
        end.log.push(SentMessage {
            number,
            first_packet,
            packets,
            content,
            is_write,
            imm,
            invalidates,
            solicited,
            ticket: end.app.ticket,
            only: draft.only,
        });
    }

    /// The bytes that it changes, and the earlier READs that may see them.
    fn account_change(&mut self, e: usize, draft: &Draft, number: u64, fence: bool) {
        let end = &mut self.ends[e];
        if fence {
            for posted in end.sends.outstanding_mut() {
                if let Effect::Read(read) = &mut posted.effect {
                    read.fenced = true;
                }
            }
        }
        match &draft.change {
            AreaChange::None => {}
            AreaChange::Refused => end.remote.refuse(number),
            AreaChange::Bytes { bytes, .. } if self.scenario.service == transport::QpType::Uc => {
                end.writes.write(number, bytes.clone());
            }
            AreaChange::Bytes { offset, bytes } => {
                end.remote.change(number, *offset, bytes.clone());
                let written = AreaPiece { offset: *offset, len: bytes.len() };
                for posted in end.sends.outstanding_mut() {
                    if let Effect::Read(read) = &mut posted.effect {
                        read.may_see(written, bytes);
                    }
                }
            }
        }
    }
}

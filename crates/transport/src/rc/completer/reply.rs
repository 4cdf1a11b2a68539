//! Replies to requests of Longarm's own (docs/extensions.md).

use wire::Packet;

use super::{check_ack_syndrome, store};
use crate::drop::DropReason;
use crate::failure::QpFailure;
use crate::host::Host;
use crate::qp_core::QpCore;
use crate::queue::send::SendWqe;
use crate::rc::requester::RcRequester;
use crate::reason::Reason;
use crate::time::Time;

impl RcRequester {
    /// Takes a packet of a reply. The last one may come before all the PSNs of the request are used up: the request
    /// is answered then.
    pub(super) fn handle_reply(
        &mut self,
        core: &mut QpCore,
        packet: &Packet<'_>,
        now: Time,
        host: &mut impl Host,
    ) -> Result<(), DropReason> {
        if !self.acknowledge_before(core, packet.psn(), now, host)? {
            return Err(DropReason::OutOfSequence);
        }
        check_ack_syndrome(packet.aeth())?;
        let head = core.sq.head().expect("an outstanding PSN lies in a WQE");
        let offset = self.window.una.distance(head.first_psn).max(0) as u32 * core.mtu();
        let Some(part) = ReplyPart::of(packet, head, offset, core.mtu()) else {
            return Err(self.bad_response());
        };
        if let Err(refused) = store(core, head, offset.into(), packet.payload(), host) {
            self.failure = Some(QpFailure::SendQueue(Reason::LocalMemory(refused)));
            return Ok(());
        }
        let to = if part.ends { head.end_psn() } else { self.window.una.next() };
        if let Some(head) = core.sq.head_mut().filter(|_| part.ends) {
            head.len_bytes = part.reply_bytes;
        }
        self.move_una(core, to, now, host);
        Ok(())
    }
}

/// The place of a packet in its reply.
struct ReplyPart {
    reply_bytes: u32,
    ends: bool,
}

impl ReplyPart {
    /// `None`: the packet does not fit the request.
    fn of(packet: &Packet<'_>, head: &SendWqe, offset: u32, mtu: u32) -> Option<ReplyPart> {
        let reply_bytes = packet.reply()?.len_bytes;
        let rest = reply_bytes.checked_sub(offset)?;
        let len = packet.payload().len() as u32;
        let is_due = offset == 0 || rest > 0;
        let fits = head.op.is_extension() && reply_bytes <= head.len_bytes && is_due && len == rest.min(mtu);
        fits.then_some(ReplyPart { reply_bytes, ends: len == rest })
    }
}

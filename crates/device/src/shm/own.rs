//! Queue pairs of one process: the same way as to another process, but to our own memory.
//!
//! The process is its own peer: its link has lanes and hazards as every link has, and the export that peers read says
//! which queue pairs are ready. Only the memory is reached otherwise. It need not be mapped once more, since the registry
//! opens it where it is, of whatever kind it is; and a long SEND is lent by its local key.

use memory::{OpenedMemory, Registry};
use transport::shm::path::ShmError;
use transport::shm::remote_op::RemoteOp;
use transport::{Access, Accessor, LKey, MemoryError, Payload, PdId, RemoteAddr, Sge};
use wire::RKey;

use shm::SharedQp;

use super::arrived::Lent;

/// WRITE on behalf of the peer queue pair.
#[inline(never)] // Not into the way to other processes.
pub(crate) fn write(
    memory: &Registry,
    peer: &SharedQp,
    pd: PdId,
    payload: &Payload,
    to: RemoteAddr,
) -> Result<(), ShmError> {
    let opened = open(memory, peer, to, payload.len_bytes() as usize, Access::REMOTE_WRITE)?;
    match payload {
        Payload::Inline(bytes) => opened.span().write(bytes),
        Payload::Sgl(sgl) => memory.gather_to(pd, sgl, 0, opened.span()).map_err(ShmError::Local)?,
    }
    Ok(())
}

/// READ on behalf of the peer queue pair.
#[inline(never)] // Not into the way to other processes.
pub(crate) fn read(
    memory: &Registry,
    peer: &SharedQp,
    pd: PdId,
    sgl: &[Sge],
    len_bytes: u32,
    from: RemoteAddr,
) -> Result<(), ShmError> {
    let opened = open(memory, peer, from, len_bytes as usize, Access::REMOTE_READ)?;
    memory.scatter_from(pd, sgl, 0, opened.span()).map_err(ShmError::Local)
}

/// Anything else that is done at once. What is left to the peer gets its error there.
#[inline(never)] // Not into the way to other processes.
pub(crate) fn remote_op(memory: &Registry, peer: &SharedQp, remote_op: &RemoteOp, rkey: RKey) -> Result<u64, ShmError> {
    let addr = match remote_op {
        RemoteOp::Atomic(addr, _) | RemoteOp::Write(addr, _) => *addr,
        RemoteOp::Flush { .. } => return Err(ShmError::NeedsFrame),
    };
    let opened = open(memory, peer, RemoteAddr { addr, rkey }, 8, remote_op.access())?;
    let word = opened.span();
    if !addr.is_multiple_of(8) || !word.is_word() {
        return Err(ShmError::NeedsFrame);
    }
    match remote_op {
        RemoteOp::Atomic(_, op) => word.atomic(*op).ok_or(ShmError::Remote(MemoryError::Misaligned)),
        RemoteOp::Write(_, value) => {
            word.write(value);
            Ok(0)
        }
        RemoteOp::Flush { .. } => Err(ShmError::NeedsFrame),
    }
}

/// Memory that only the responder reaches, on-demand memory, is left to it.
#[inline]
fn open<'a>(
    memory: &'a Registry,
    peer: &SharedQp,
    at: RemoteAddr,
    len_bytes: usize,
    access: Access,
) -> Result<OpenedMemory<'a>, ShmError> {
    let who = Accessor { pd: peer.pd, qpn: peer.qpn };
    let opened = memory.open_remote(who, at.rkey, at.addr, len_bytes, access).map_err(ShmError::Remote)?;
    opened.ok_or(ShmError::NeedsFrame)
}

/// How an entry of a list is lent, if it can be. Its domain was checked before.
pub(crate) fn lend(memory: &Registry, sge: &Sge) -> Option<Lent> {
    memory.open_local(sge.lkey, sge.addr, sge.len_bytes as usize).ok().flatten()?;
    Some(Lent { object: sge.lkey.0, len_bytes: sge.len_bytes, offset: sge.addr })
}

/// What was lent, unless its owner has deregistered it meanwhile.
pub(crate) fn borrowed<'a>(memory: &'a Registry, lent: &Lent) -> Result<OpenedMemory<'a>, ShmError> {
    let opened = memory.open_local(LKey(lent.object), lent.offset, lent.len_bytes as usize);
    opened.ok().flatten().ok_or(ShmError::NeedsFrame)
}

#[cfg(test)]
mod tests {
    use transport::QpType;
    use transport::shm::frame::{FrameHead, FrameKind};
    use wire::Qpn;

    use crate::path::dispatch::{lane_of, send_head};
    use crate::testing::Way;
    use crate::tests::rig::*;

    /// A lane full of requests to nobody: the answers find no room on the lane that they would empty.
    #[test]
    fn a_full_lane_of_requests_to_nobody_is_emptied() {
        by(Way::OneProcess, || {
            on_loopback(|group| {
                let (a, b) = pair(group, Setup::new(QpType::Rc));
                let engine = a.device.engine();
                let link = engine.link_to_itself(engine.shm.as_ref().unwrap()).expect("a link");
                // As many requests as fit, of one queue pair, all to one that is not there. Nobody takes them meanwhile.
                let nobody = Qpn::new(a.qp.qpn().get() + 8 * 1000);
                let request = FrameHead::new(FrameKind::Send, a.qp.qpn(), nobody);
                let lane = lane_of(&request);
                assert_eq!(lane, lane_of(&request.not_ready()));
                let taker = std::iter::repeat_with(|| link.consumer(lane)).flatten().next().expect("it is free soon");
                while send_head(&link, &request) {}
                drop(taker);
                wait_for("an empty lane", || {
                    a.device.progress();
                    link.waiting() == 0
                });
                // Others use the lane as ever.
                b.post_recv(1, 0, 8);
                a.send(2, transport::SendOp::Send, 0, 8);
                assert_eq!((b.received().wr_id, a.sent().wr_id), (1, 2));
            });
        });
    }
}

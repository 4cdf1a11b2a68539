//! Queue pairs of one process: the same path as to another process, but to our own memory.
//!
//! The process is its own peer: its link has lanes and hazards like every link, and the export tells which queue pairs
//! are ready. Only the memory is reached in another way. The registry opens memory of every kind at its own address, so
//! nothing is mapped twice. A long SEND is lent by its local key.

use memory::{OpenedMemory, Registry};
use transport::shm::path::ShmError;
use transport::shm::remote_op::RemoteOp;
use transport::{Access, Accessor, LKey, MemoryError, Payload, PdId, RemoteAddr, Sge};
use wire::RKey;

use shm::SharedQp;

use crate::shm::frame::LentPiece;

/// WRITE on behalf of the peer queue pair.
#[inline(never)] // Keeps the path to other processes short.
pub(crate) fn write(
    memory: &Registry,
    peer: &SharedQp,
    pd: PdId,
    payload: &Payload,
    to: RemoteAddr,
) -> Result<(), ShmError> {
    let opened = open(memory, peer, to, payload.len_bytes() as usize, Access::REMOTE_WRITE)?;
    match payload {
        Payload::Call(_) => return Err(ShmError::NeedsFrame),
        Payload::Inline(bytes) => opened.span().write(bytes),
        Payload::Sgl(sgl) => memory.gather_to(pd, sgl, 0, opened.span()).map_err(ShmError::Local)?,
    }
    Ok(())
}

/// READ on behalf of the peer queue pair.
#[inline(never)] // Keeps the path to other processes short.
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

/// Carries out any other access. The responder refuses what is left to it.
#[inline(never)] // Keeps the path to other processes short.
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

/// Opens a range. On-demand memory is left to the responder, which alone reaches it.
#[inline]
pub(crate) fn open<'a>(
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

/// Lends an entry of a list, if that is possible. The caller has checked its domain.
pub(crate) fn lend(memory: &Registry, sge: &Sge) -> Option<LentPiece> {
    memory.open_local(sge.lkey, sge.addr, sge.len_bytes as usize).ok().flatten()?;
    Some(LentPiece { object: sge.lkey.0, len_bytes: sge.len_bytes, offset: sge.addr })
}

/// Opens memory that was lent, unless its owner has deregistered it meanwhile.
pub(crate) fn borrowed<'a>(memory: &'a Registry, lent: &LentPiece) -> Result<OpenedMemory<'a>, ShmError> {
    let opened = memory.open_local(LKey(lent.object), lent.offset, lent.len_bytes as usize);
    opened.ok().flatten().ok_or(ShmError::NeedsFrame)
}

#[cfg(test)]
mod tests {
    use transport::QpType;
    use transport::shm::frame::{FrameHead, FrameKind};
    use wire::Qpn;

    use crate::shm::lane;
    use crate::testing::EnginePath;
    use crate::tests::rig::*;

    /// A lane is full of requests to a queue pair that does not exist: the responses find no room in the lane.
    #[test]
    fn a_full_lane_of_requests_without_a_receiver_is_emptied() {
        by(EnginePath::OneProcess, || {
            on_loopback(|group| {
                let (a, b) = pair(group, Setup::new(QpType::Rc));
                let engine = a.device.engine();
                let bell = || engine.watch.copy_bell();
                let link = engine.shm.as_ref().unwrap().link_to_itself(bell).expect("a link");
                // As many requests as fit, of one queue pair, all to one that does not exist. No thread takes them meanwhile.
                let nobody = Qpn::new(a.qp.qpn().get() + 8 * 1000);
                let request = FrameHead::new(FrameKind::Send, a.qp.qpn(), nobody);
                let number = lane::of_head(&request);
                assert_eq!(number, lane::of_head(&request.not_ready()));
                let taker = std::iter::repeat_with(|| link.consumer(number)).flatten().next().expect("it is free soon");
                while lane::send_head(&link, &request) {}
                drop(taker);
                wait_until("an empty lane", || {
                    a.device.progress();
                    link.waiting() == 0
                });
                // Other queue pairs can use the lane.
                b.post_recv(1, 0, 8);
                a.send(2, transport::SendOp::Send, 0, 8);
                assert_eq!((b.received().wr_id, a.sent().wr_id), (1, 2));
            });
        });
    }
}

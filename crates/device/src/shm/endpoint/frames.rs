//! Frames to the peer.

use memory::Registry;
use shm::MAX_FRAME_BYTES;
use smallvec::SmallVec;
use transport::shm::frame::{FrameFlags, FrameHead, HEAD_BYTES};
use transport::shm::path::{SendBody, ShmError};
use transport::{Accessor, Memory, PdId, Sge};
use wire::RKey;

use crate::shm::endpoint::ShmEndpoint;
use crate::shm::frame::{LENT_BYTES, LentPiece, MAX_LENT};
use crate::shm::own;

/// From this length on a SEND names the place of its bytes. Below, two short copies cost less than an access to the
/// sender's memory.
const LEND_FROM_BYTES: u32 = 1 << 10;
/// The bytes of a message that one frame brings at most.
const MAX_PART_BYTES: u32 = (MAX_FRAME_BYTES - HEAD_BYTES - 64) as u32;

impl ShmEndpoint {
    /// Sends a frame with a body of bytes.
    #[inline]
    fn send_bytes(&self, head: &FrameHead, prefix: &[u8], bytes: &[u8]) -> Result<(), ShmError> {
        let mut lane = self.link.producer(self.lane);
        let Some(mut room) = lane.reserve(HEAD_BYTES + prefix.len() + bytes.len()) else { return Err(self.no_room()) };
        room.write(0, &head.encode());
        room.write(HEAD_BYTES, prefix);
        room.write(HEAD_BYTES + prefix.len(), bytes);
        room.commit();
        Ok(())
    }

    /// Sends a part of a list.
    #[inline]
    fn send_list(
        &self,
        memory: &Registry,
        head: &mut FrameHead,
        prefix: &[u8],
        (pd, sgl, offset): (PdId, &[Sge], u32),
        left_bytes: u32,
    ) -> Result<u32, ShmError> {
        let part = left_bytes.min(MAX_PART_BYTES);
        head.flags.set(FrameFlags::LAST, part == left_bytes);
        let at = HEAD_BYTES + prefix.len();
        let mut lane = self.link.producer(self.lane);
        let Some(mut room) = lane.reserve(at + part as usize) else { return Err(self.no_room()) };
        room.write(0, &head.encode());
        room.write(HEAD_BYTES, prefix);
        if part > 0 {
            let to = room.span(at, part as usize).ok_or(ShmError::LaneFull)?;
            memory.gather_to(pd, sgl, offset.into(), to).map_err(ShmError::Local)?;
        }
        room.commit();
        Ok(part)
    }

    /// Lends all of a list, if the peer can map all of it. False if it cannot.
    fn lend(&self, memory: &Registry, head: &mut FrameHead, pd: PdId, sgl: &[Sge]) -> Result<bool, ShmError> {
        let mut bytes: SmallVec<[u8; LENT_BYTES * MAX_LENT]> = SmallVec::new();
        let parts = sgl.iter().filter(|sge| sge.len_bytes > 0);
        if parts.clone().count() > MAX_LENT {
            return Ok(false);
        }
        for sge in parts {
            let Some(lent) = self.lend_entry(memory, pd, sge)? else { return Ok(false) };
            bytes.extend(lent.encode());
        }
        head.flags |= FrameFlags::LENT | FrameFlags::LAST;
        self.send_bytes(head, &[], &bytes)?;
        Ok(true)
    }

    fn lend_entry(&self, memory: &Registry, pd: PdId, sge: &Sge) -> Result<Option<LentPiece>, ShmError> {
        let place = memory.locate(pd, sge).map_err(ShmError::Local)?;
        if self.link.is_own() {
            return Ok(own::lend(memory, sge));
        }
        Ok(place.map(|(object, offset)| LentPiece { object, len_bytes: sge.len_bytes, offset }))
    }

    /// The reason why the lane takes no frame: it is full, or the peer is gone.
    #[cold]
    fn no_room(&self) -> ShmError {
        if self.link.is_dead() { ShmError::PeerDead } else { ShmError::LaneFull }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn send_and_record(
        &self,
        memory: &Registry,
        head: &FrameHead,
        prefix: &[u8],
        body: SendBody<'_>,
    ) -> Result<u32, ShmError> {
        let taken = self.send_frame(memory, head, prefix, body)?;
        self.recorder.sent(memory, head, prefix, body, taken);
        Ok(taken)
    }

    #[inline(always)] // Two callers, of which one is on the fast path.
    pub(crate) fn send_frame(
        &self,
        memory: &Registry,
        head: &FrameHead,
        prefix: &[u8],
        body: SendBody<'_>,
    ) -> Result<u32, ShmError> {
        let mut head = *head;
        match body {
            SendBody::Bytes(bytes) => {
                head.flags |= FrameFlags::LAST;
                self.send_bytes(&head, prefix, bytes)?;
                Ok(bytes.len() as u32)
            }
            SendBody::List { pd, sgl, offset, left_bytes, may_lend } => {
                let whole = may_lend && offset == 0 && left_bytes >= LEND_FROM_BYTES;
                if whole && self.lend(memory, &mut head, pd, sgl)? {
                    return Ok(left_bytes);
                }
                self.send_list(memory, &mut head, prefix, (pd, sgl, offset), left_bytes)
            }
            SendBody::Remote { who, rkey, addr, left_bytes } => {
                self.send_remote(memory, &mut head, (who, rkey, addr), left_bytes)
            }
        }
    }

    /// Sends a part of the memory that a key of ours opens.
    fn send_remote(
        &self,
        memory: &Registry,
        head: &mut FrameHead,
        (who, rkey, addr): (Accessor, RKey, u64),
        left_bytes: u32,
    ) -> Result<u32, ShmError> {
        let part = left_bytes.min(MAX_PART_BYTES);
        let mut bytes: SmallVec<[u8; 1024]> = SmallVec::new();
        bytes.resize(part as usize, 0);
        memory.remote_read(who, rkey, addr, &mut bytes).map_err(ShmError::Remote)?;
        head.flags.set(FrameFlags::LAST, part == left_bytes);
        self.send_bytes(head, &[], &bytes)?;
        Ok(part)
    }
}

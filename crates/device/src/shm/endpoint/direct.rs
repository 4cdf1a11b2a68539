//! Accesses of this process to the peer's memory.

use memory::Registry;
use shm::Hazard;
use transport::shm::path::ShmError;
use transport::shm::remote_op::RemoteOp;
use transport::{Access, MemoryError, Payload, PdId, RemoteAddr, Sge};
use wire::RKey;

use crate::shm::endpoint::ShmEndpoint;
use crate::shm::reach::PeerMemory;
use crate::shm::{far, own};

impl ShmEndpoint {
    /// Begins an access.
    ///
    /// # Errors
    /// If the peer is gone, or frames must do it.
    #[inline]
    pub(super) fn enter(&self) -> Result<Hazard<'_>, ShmError> {
        if self.link.is_dead() {
            return Err(ShmError::PeerDead);
        }
        if !self.link.is_direct() {
            return Err(ShmError::NeedsFrame);
        }
        self.link.enter(self.ours.index()).ok_or(ShmError::PeerDead)
    }

    #[inline]
    pub(crate) fn write_there(
        &self,
        memory: &Registry,
        pd: PdId,
        payload: &Payload,
        to: RemoteAddr,
    ) -> Result<(), ShmError> {
        let _hazard = self.enter()?;
        let peer = self.link.peer();
        let mut recent = self.recent.borrow_mut();
        let qp = recent.queue_pair(peer, self.theirs, self.ours, Access::REMOTE_WRITE)?;
        let len_bytes = payload.len_bytes();
        if len_bytes == 0 {
            return Ok(());
        }
        if self.link.is_own() {
            return own::write(memory, &qp, pd, payload, to);
        }
        match recent.range(&self.link, &qp, to, len_bytes, Access::REMOTE_WRITE)? {
            PeerMemory::Far(address) => far::write(peer, address, memory, pd, payload, len_bytes as usize),
            PeerMemory::Mapped(object, _) if !object.is_writable() => Err(ShmError::NeedsFrame),
            PeerMemory::Mapped(object, at) => {
                let to = object.span().part(at, len_bytes as usize).ok_or(ShmError::NeedsFrame)?;
                match payload {
                    Payload::Call(_) => return Err(ShmError::NeedsFrame),
                    Payload::Inline(bytes) => to.write(bytes),
                    Payload::Sgl(sgl) => memory.gather_to(pd, sgl, 0, to).map_err(ShmError::Local)?,
                }
                Ok(())
            }
        }
    }

    /// Writes bytes of ours to mapped memory of the peer.
    pub(crate) fn write_bytes_there(&self, bytes: &[u8], to: RemoteAddr) -> Result<(), ShmError> {
        let _hazard = self.enter()?;
        let mut recent = self.recent.borrow_mut();
        let qp = recent.queue_pair(self.link.peer(), self.theirs, self.ours, Access::REMOTE_WRITE)?;
        if self.link.is_own() || bytes.is_empty() {
            return Err(ShmError::NeedsFrame);
        }
        match recent.range(&self.link, &qp, to, bytes.len() as u64, Access::REMOTE_WRITE)? {
            PeerMemory::Mapped(object, at) if object.is_writable() => {
                object.span().part(at, bytes.len()).ok_or(ShmError::NeedsFrame)?.write(bytes);
                Ok(())
            }
            PeerMemory::Mapped(..) | PeerMemory::Far(_) => Err(ShmError::NeedsFrame),
        }
    }

    #[inline]
    pub(crate) fn read_there(
        &self,
        memory: &Registry,
        pd: PdId,
        sgl: &[Sge],
        len_bytes: u32,
        from: RemoteAddr,
    ) -> Result<(), ShmError> {
        let _hazard = self.enter()?;
        let peer = self.link.peer();
        let mut recent = self.recent.borrow_mut();
        let qp = recent.queue_pair(peer, self.theirs, self.ours, Access::REMOTE_READ)?;
        if len_bytes == 0 {
            return Ok(());
        }
        if self.link.is_own() {
            return own::read(memory, &qp, pd, sgl, len_bytes, from);
        }
        match recent.range(&self.link, &qp, from, len_bytes.into(), Access::REMOTE_READ)? {
            PeerMemory::Far(address) => far::read(peer, address, memory, pd, sgl, 0, len_bytes as usize),
            PeerMemory::Mapped(object, at) => {
                let from = object.span().part(at, len_bytes as usize).ok_or(ShmError::NeedsFrame)?;
                memory.scatter_from(pd, sgl, 0, from).map_err(ShmError::Local)
            }
        }
    }

    #[inline]
    pub(crate) fn remote_op_there(&self, memory: &Registry, remote_op: &RemoteOp, rkey: RKey) -> Result<u64, ShmError> {
        let _hazard = self.enter()?;
        let peer = self.link.peer();
        let mut recent = self.recent.borrow_mut();
        let qp = recent.queue_pair(peer, self.theirs, self.ours, remote_op.access())?;
        if self.link.is_own() {
            return own::remote_op(memory, &qp, remote_op, rkey);
        }
        let (addr, len_bytes) = match remote_op {
            RemoteOp::Atomic(addr, _) | RemoteOp::Write(addr, _) => (*addr, 8),
            // A flush concerns the peer's processor and its memory.
            RemoteOp::Flush { .. } => return Err(ShmError::NeedsFrame),
        };
        let remote = RemoteAddr { addr, rkey };
        // Only a mapped word can be changed atomically.
        let PeerMemory::Mapped(object, at) = recent.range(&self.link, &qp, remote, len_bytes, remote_op.access())?
        else {
            return Err(ShmError::NeedsFrame);
        };
        let word = object.span().part(at, 8).ok_or(ShmError::NeedsFrame)?;
        if !object.is_writable() || !addr.is_multiple_of(8) || !word.is_word() {
            // The peer answers as it would on the wire.
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
}

//! What is done in the peer's memory by ourselves.

use memory::Registry;
use shm::Hazard;
use transport::shm::errand::Errand;
use transport::shm::path::Stop;
use transport::{Access, MemoryError, Payload, PdId, RemoteAddr, Sge};
use wire::RKey;

use super::End;
use crate::shm::reach::Place;
use crate::shm::{far, own};

impl End {
    /// Begins an access, if there is a peer and it may be.
    #[inline]
    fn enter(&self) -> Result<Hazard<'_>, Stop> {
        if self.link.is_dead() {
            return Err(Stop::Dead);
        }
        if !self.link.is_direct() {
            return Err(Stop::Elsewhere);
        }
        self.link.enter(self.ours.index()).ok_or(Stop::Dead)
    }

    #[inline]
    pub(crate) fn write_there(
        &self,
        memory: &Registry,
        pd: PdId,
        payload: &Payload,
        to: RemoteAddr,
    ) -> Result<(), Stop> {
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
        match recent.place(&self.link, &qp, to, len_bytes, Access::REMOTE_WRITE)? {
            Place::Far(address) => far::write(peer, address, memory, pd, payload, len_bytes as usize),
            Place::Mapped(object, _) if !object.is_writable() => Err(Stop::Elsewhere),
            Place::Mapped(object, at) => {
                let to = object.span().part(at, len_bytes as usize).ok_or(Stop::Elsewhere)?;
                match payload {
                    Payload::Inline(bytes) => to.write(bytes),
                    Payload::Sgl(sgl) => memory.gather_to(pd, sgl, 0, to).map_err(Stop::Local)?,
                }
                Ok(())
            }
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
    ) -> Result<(), Stop> {
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
        match recent.place(&self.link, &qp, from, len_bytes.into(), Access::REMOTE_READ)? {
            Place::Far(address) => far::read(peer, address, memory, pd, sgl, 0, len_bytes as usize),
            Place::Mapped(object, at) => {
                let from = object.span().part(at, len_bytes as usize).ok_or(Stop::Elsewhere)?;
                memory.scatter_from(pd, sgl, 0, from).map_err(Stop::Local)
            }
        }
    }

    #[inline]
    pub(crate) fn errand_there(&self, memory: &Registry, errand: &Errand, rkey: RKey) -> Result<u64, Stop> {
        let _hazard = self.enter()?;
        let peer = self.link.peer();
        let mut recent = self.recent.borrow_mut();
        let qp = recent.queue_pair(peer, self.theirs, self.ours, errand.access())?;
        if self.link.is_own() {
            return own::errand(memory, &qp, errand, rkey);
        }
        let (addr, len_bytes) = match errand {
            Errand::Atomic(addr, _) | Errand::Write(addr, _) => (*addr, 8),
            // It is between the peer's processor and its memory.
            Errand::Flush { .. } => return Err(Stop::Elsewhere),
        };
        let remote = RemoteAddr { addr, rkey };
        // Only a mapped word can be changed at once.
        let Place::Mapped(object, at) = recent.place(&self.link, &qp, remote, len_bytes, errand.access())? else {
            return Err(Stop::Elsewhere);
        };
        let word = object.span().part(at, 8).ok_or(Stop::Elsewhere)?;
        if !object.is_writable() || !addr.is_multiple_of(8) || !word.is_word() {
            // The peer answers as it would on the wire.
            return Err(Stop::Elsewhere);
        }
        match errand {
            Errand::Atomic(_, op) => word.atomic(*op).ok_or(Stop::Remote(MemoryError::Misaligned)),
            Errand::Write(_, value) => {
                word.write(value);
                Ok(0)
            }
            Errand::Flush { .. } => Err(Stop::Elsewhere),
        }
    }
}

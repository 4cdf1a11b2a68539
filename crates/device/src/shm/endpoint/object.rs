//! READs of the peer's objects at one moment, by this process.

use memory::{ObjectError, Registry, Span};
use transport::shm::path::ShmError;
use transport::{Access, MemoryError, PdId, RemoteAddr, Sge};

use crate::shm::endpoint::ShmEndpoint;
use crate::shm::own;
use crate::shm::reach::PeerMemory;

/// The place of an object in the peer's memory, and its lock.
#[derive(Clone, Copy)]
pub(crate) struct RemoteObject {
    pub(crate) at: RemoteAddr,
    pub(crate) len_bytes: u32,
    pub(crate) lock_mask: u64,
}

impl ShmEndpoint {
    /// Copies an object to a list of ours. The peer itself copies memory that is not mapped here, since the kernel's copy
    /// has no order.
    pub(crate) fn read_object_there(
        &self,
        memory: &Registry,
        pd: PdId,
        sgl: &[Sge],
        object: RemoteObject,
    ) -> Result<u32, ShmError> {
        let _hazard = self.enter()?;
        let peer = self.link.peer();
        let mut recent = self.recent.borrow_mut();
        let qp = recent.queue_pair(peer, self.theirs, self.ours, Access::REMOTE_READ)?;
        let RemoteObject { at, len_bytes, .. } = object;
        if self.link.is_own() {
            let opened = own::open(memory, &qp, at, len_bytes as usize, Access::REMOTE_READ)?;
            return copy(memory, pd, sgl, opened.span(), object);
        }
        match recent.range(&self.link, &qp, at, len_bytes.into(), Access::REMOTE_READ)? {
            PeerMemory::Far(_) => Err(ShmError::NeedsFrame),
            PeerMemory::Mapped(mapped, offset) => {
                let from = mapped.span().part(offset, len_bytes as usize).ok_or(ShmError::NeedsFrame)?;
                copy(memory, pd, sgl, from, object)
            }
        }
    }
}

fn copy(
    memory: &Registry,
    pd: PdId,
    sgl: &[Sge],
    from: Span<'_>,
    RemoteObject { at, lock_mask, .. }: RemoteObject,
) -> Result<u32, ShmError> {
    memory.scatter_object(pd, sgl, from, at.addr, lock_mask).map_err(|error| match error {
        // The peer answers as it would on the wire.
        ObjectError::Object(MemoryError::Misaligned) => ShmError::NeedsFrame,
        ObjectError::Object(error) => ShmError::Remote(error),
        ObjectError::List(error) => ShmError::Local(error),
    })
}

//! READs of the peer's memory into bytes that need not be registered.

use memory::{Registry, Span};
use transport::shm::path::ShmError;
use transport::{Access, RemoteAddr};

use crate::shm::endpoint::ShmEndpoint;
use crate::shm::own;
use crate::shm::reach::PeerMemory;

impl ShmEndpoint {
    /// Copies mapped memory of the peer; with a lock mask an object at one moment. Returns the bytes that it took.
    #[inline]
    pub(crate) fn read_bytes_there(
        &self,
        memory: &Registry,
        out: &mut [u8],
        from: RemoteAddr,
        lock_mask: Option<u64>,
    ) -> Result<u32, ShmError> {
        let _hazard = self.enter()?;
        let mut recent = self.recent.borrow_mut();
        let qp = recent.queue_pair(self.link.peer(), self.theirs, self.ours, Access::REMOTE_READ)?;
        if self.link.is_own() {
            let opened = own::open(memory, &qp, from, out.len(), Access::REMOTE_READ)?;
            return copy(opened.span(), from, lock_mask, out);
        }
        match recent.range(&self.link, &qp, from, out.len() as u64, Access::REMOTE_READ)? {
            PeerMemory::Far(_) => Err(ShmError::NeedsFrame),
            PeerMemory::Mapped(object, at) => {
                let there = object.span().part(at, out.len()).ok_or(ShmError::NeedsFrame)?;
                copy(there, from, lock_mask, out)
            }
        }
    }
}

#[inline]
fn copy(there: Span<'_>, from: RemoteAddr, lock_mask: Option<u64>, out: &mut [u8]) -> Result<u32, ShmError> {
    let taken = match lock_mask {
        Some(lock_mask) => memory::read_object(there, from.addr, lock_mask, out).map_err(ShmError::Remote)?,
        None => {
            there.read(out);
            out.len()
        }
    };
    Ok(taken as u32)
}

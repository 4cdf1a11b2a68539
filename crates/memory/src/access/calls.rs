//! Calls of peers, and the handlers that carry them out.

use transport::{Access, Accessor, MemoryError, RemoteCallError, ReplyBytes};
use wire::RKey;

use crate::error::MrError;
use crate::handlers::{CallHandler, ServedRegion};
use crate::registry::{MrKeys, Registry};

impl Registry {
    /// Sets the handler of calls to a region.
    ///
    /// # Errors
    /// [`MrError::UnknownId`] if the region is gone; [`MrError::Busy`] if it has a handler.
    pub fn serve_calls(&self, keys: &MrKeys, handler: Box<CallHandler>) -> Result<(), MrError> {
        let grant = self.pin_local(keys.lkey).map_err(|_| MrError::UnknownId)?;
        let region = ServedRegion::new(&grant, handler);
        drop(grant);
        if self.handlers.add(region) { Ok(()) } else { Err(MrError::Busy) }
    }

    /// Ends the service of a region's calls, and waits for those under way. Does nothing if it has no handler.
    pub fn stop_calls(&self, keys: &MrKeys) {
        self.handlers.end(keys.lkey);
    }

    /// See [`Memory::remote_call`](transport::Memory::remote_call). Nothing is pinned while the handler runs: it may wait
    /// for the end of accesses.
    pub(super) fn call(
        &self,
        who: Accessor,
        rkey: RKey,
        addr: u64,
        request: &[u8],
        reply: &mut ReplyBytes,
    ) -> Result<(), RemoteCallError> {
        let place = {
            let grant = self.admit_remote(who, rkey, Access::REMOTE_CALL).map_err(RemoteCallError::Refused)?;
            grant.first_byte(addr, 1).map_err(RemoteCallError::Refused)?.addr()
        };
        let region = self.handlers.find(who.pd, rkey, place);
        let region = region.ok_or(RemoteCallError::Refused(MemoryError::NoPermission))?;
        region.call(place, request, who.qpn, reply)
    }
}

#[cfg(test)]
mod tests;

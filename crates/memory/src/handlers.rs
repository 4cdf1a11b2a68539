//! Handlers of calls: code of the owner that the device runs at a peer's request (KV-Direct, SOSP 2017, in software).

use core::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use transport::{LKey, MemoryError, PdId, RemoteCallError, ReplyBytes};
use wire::{Qpn, RKey};

use crate::grant::Grant;

/// One call of a peer.
#[derive(Clone, Copy, Debug)]
pub struct RemoteCall<'a> {
    /// The request.
    pub request: &'a [u8],
    /// The place that the peer named, from the region's first byte on.
    pub offset: u64,
    /// Our queue pair that it came to.
    pub qpn: Qpn,
}

/// Carries out calls. It runs on a thread that drives the device, with the queue pair locked.
pub type CallHandler = dyn Fn(&RemoteCall<'_>, &mut ReplyBytes) + Send + Sync;

/// The handlers of all regions that have one.
#[derive(Default)]
pub(crate) struct CallHandlers(Mutex<Vec<Arc<ServedRegion>>>);

/// A region with a handler.
pub(crate) struct ServedRegion {
    lkey: LKey,
    rkey: RKey,
    pd: PdId,
    start: usize,
    len_bytes: u64,
    handler: RwLock<Option<Box<CallHandler>>>,
}

impl fmt::Debug for CallHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CallHandlers({})", self.0.lock().len())
    }
}

impl CallHandlers {
    /// The region with this key, or the one that a window of it opens.
    pub(crate) fn find(&self, pd: PdId, rkey: RKey, at: usize) -> Option<Arc<ServedRegion>> {
        let served = self.0.lock();
        let by_key = served.iter().find(|region| region.rkey == rkey);
        by_key.or_else(|| served.iter().find(|region| region.pd == pd && region.offset_of(at).is_some())).cloned()
    }

    /// Adds a region; false if it is there.
    pub(crate) fn add(&self, region: ServedRegion) -> bool {
        let mut served = self.0.lock();
        let is_new = served.iter().all(|known| known.lkey != region.lkey);
        if is_new {
            served.push(Arc::new(region));
        }
        is_new
    }

    /// Takes a region away, and waits for its calls under way.
    pub(crate) fn end(&self, lkey: LKey) {
        let mut served = self.0.lock();
        let index = served.iter().position(|region| region.lkey == lkey);
        let region = index.map(|index| served.swap_remove(index));
        drop(served);
        let handler = region.and_then(|region| region.handler.write().take());
        drop(handler);
    }
}

impl ServedRegion {
    /// The region of a grant.
    pub(crate) fn new(grant: &Grant, handler: Box<CallHandler>) -> ServedRegion {
        let Grant { lkey, rkey, pd, start, .. } = *grant;
        let (start, len_bytes) = (start.addr(), grant.size_bytes());
        ServedRegion { lkey, rkey, pd, start, len_bytes, handler: RwLock::new(Some(handler)) }
    }

    /// Carries out a call at an address of this process.
    pub(crate) fn call(
        &self,
        at: usize,
        request: &[u8],
        qpn: Qpn,
        reply: &mut ReplyBytes,
    ) -> Result<(), RemoteCallError> {
        let handler = self.handler.read();
        let (Some(offset), Some(handler)) = (self.offset_of(at), handler.as_deref()) else {
            return Err(RemoteCallError::Refused(MemoryError::NoPermission));
        };
        let call = RemoteCall { request, offset, qpn };
        catch_unwind(AssertUnwindSafe(|| handler(&call, reply))).map_err(|_| RemoteCallError::Panicked)
    }

    fn offset_of(&self, at: usize) -> Option<u64> {
        at.checked_sub(self.start).map(|offset| offset as u64).filter(|offset| *offset < self.len_bytes)
    }
}

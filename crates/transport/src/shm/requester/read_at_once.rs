//! READs into bytes that no key names, executed while the caller waits.

use super::{ShmRequester, path};
use crate::host::Host;
use crate::limits::OBJECT_BYTES;
use crate::qp_core::QpCore;
use crate::shm::path::ShmPath;
use crate::wr::RemoteAddr;

impl ShmRequester {
    /// Executes a READ if that is possible at once, and returns the bytes that it took.
    #[inline]
    pub(crate) fn read_at_once(
        &mut self,
        core: &mut QpCore,
        out: &mut [u8],
        (from, lock_mask): (RemoteAddr, Option<u64>),
        host: &mut impl Host,
    ) -> Option<u32> {
        let len_bytes = u32::try_from(out.len()).ok().filter(|len_bytes| *len_bytes > 0)?;
        let is_object = OBJECT_BYTES.contains(&len_bytes) && from.addr.is_multiple_of(8);
        if !self.is_idle(core) || (lock_mask.is_some() && !is_object) {
            return None;
        }
        let to_peer = path(host).ok().filter(|path| !path.is_recorded())?;
        let taken = to_peer.read_bytes(host.memory(), out, from, lock_mask).ok()?;
        core.counters.tx_packets += 1;
        self.wait.progress();
        Some(taken)
    }
}

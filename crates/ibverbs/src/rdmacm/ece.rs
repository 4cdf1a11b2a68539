//! Enhanced connection establishment: vendor options, which this device has none of.

use crate::abi::*;
use crate::boundary::{Errno, minus_one};
use crate::rdmacm::id;

/// `rdma_set_local_ece(3)`: remembered only; the device has no options that a peer could use.
///
/// # Safety
/// Null or an id that exists; null or readable options.
pub(crate) unsafe extern "C" fn rdma_set_local_ece(c: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    minus_one(|| {
        // SAFETY: the caller's promise.
        let (own, ece) = unsafe { (id::of(c)?, ece.as_ref().ok_or(Errno::INVAL)?) };
        if ece.comp_mask != 0 {
            return Err(Errno::INVAL);
        }
        own.state.lock().local_ece = Some((ece.vendor_id, ece.options));
        Ok(0)
    })
}

/// `rdma_get_remote_ece(3)`: the peer's vendor is 0, nobody's.
///
/// # Safety
/// Null or an id that exists; null or a place for the options.
pub(crate) unsafe extern "C" fn rdma_get_remote_ece(c: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    minus_one(|| {
        // SAFETY: the caller's promise.
        let place = unsafe {
            id::of(c)?;
            ece.as_mut().ok_or(Errno::INVAL)?
        };
        *place = ibv_ece { vendor_id: 0, options: 0, comp_mask: 0 };
        Ok(0)
    })
}

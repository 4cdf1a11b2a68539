//! Enhanced connection establishment: vendor options, which programs with queue pairs of their own tell each other.
//! Our device has none to add.

use ::connect::Ece;

use crate::boundary::{Errno, minus_one};
use crate::rdmacm::id_object::of;
use abi::*;

/// `rdma_set_local_ece(3)`: EINVAL with a queue pair of the id's, which would have its own options.
///
/// # Safety
/// Null or an id that exists; null or readable options.
pub(crate) unsafe extern "C" fn rdma_set_local_ece(c: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_set_local_ece`: null or an id that exists; null or readable options.
        let (own, has_qp, ece) = unsafe { (of(c)?, !(*c).qp.is_null(), ece.as_ref().ok_or(Errno::INVAL)?) };
        if has_qp || ece.vendor_id == 0 || ece.comp_mask != 0 {
            return Err(Errno::INVAL);
        }
        own.id.set_ece(Ece { vendor_id: ece.vendor_id, options: ece.options })?;
        Ok(0)
    })
}

/// `rdma_get_remote_ece(3)`: all zero if the peer has told none.
///
/// # Safety
/// Null or an id that exists; null or a place for the options.
pub(crate) unsafe extern "C" fn rdma_get_remote_ece(c: *mut rdma_cm_id, ece: *mut ibv_ece) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_get_remote_ece`: null or an id that exists; null or a place for the options.
        let (own, has_qp, place) = unsafe { (of(c)?, !(*c).qp.is_null(), ece.as_mut().ok_or(Errno::INVAL)?) };
        if has_qp {
            return Err(Errno::INVAL);
        }
        let Ece { vendor_id, options } = own.id.remote_ece();
        *place = ibv_ece { vendor_id, options, comp_mask: 0 };
        Ok(0)
    })
}

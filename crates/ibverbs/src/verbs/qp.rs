//! The end of queue pairs, and their extended view.

use std::sync::Arc;

use crate::boundary::{Errno, errno};
use crate::object::CObject;
use crate::verbs::context::ContextOwn;
use crate::verbs::qp_object::{QpObject, QpOwn};
use abi::*;

/// `ibv_destroy_qp(3)`: waits until fetched events are acknowledged. EBUSY while it is attached to
/// a multicast group.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: the contract of `ibv_destroy_qp` includes that of `QpObject::of`.
    match unsafe { QpObject::of(qp) } {
        Ok(own) if own.qp.is_in_multicast() => errno(|| Err(Errno(libc::EBUSY))),
        // SAFETY: the contract of `ibv_destroy_qp` includes that of `destroy`.
        _ => unsafe { destroy(qp) },
    }
}

/// Destroys a queue pair, which leaves its multicast groups.
///
/// # Safety
/// As [`ibv_destroy_qp`].
pub(crate) unsafe fn destroy(qp: *mut ibv_qp) -> c_int {
    errno(|| {
        // SAFETY: the contract of `destroy`, which is that of `ibv_destroy_qp`.
        let own = unsafe { QpObject::of(qp) }?;
        if Arc::strong_count(&own.handles) == 1 {
            own.qp.destroy()?;
        }
        // SAFETY: the contract of `destroy`, which is that of `ibv_destroy_qp`.
        unsafe { ContextOwn::of((*qp).context) }?.forget_qp(own.qp.qpn(), qp);
        own.unacked.wait();
        // SAFETY: the contract of `destroy`, which is that of `ibv_destroy_qp`.
        unsafe { CObject::<ibv_qp_ex, QpOwn>::free(qp.cast()) };
        Ok(())
    })
}

/// `ibv_qp_to_qp_ex(3)`: null for a queue pair that was made without its operations.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: the contract of `ibv_qp_to_qp_ex`: null, or created.
    match unsafe { QpObject::whatever_handle(qp) } {
        Ok(own) if own.extended => qp.cast(),
        _ => std::ptr::null_mut(),
    }
}

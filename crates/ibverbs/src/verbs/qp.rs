//! What belongs to a queue pair, and how it ends.

use std::sync::Arc;

use device::{Qp, QpCaps};

use crate::abi::*;
use crate::boundary::{Errno, errno};
use crate::object::Object;
use crate::verbs::context::Context;
use crate::verbs::events::Unacked;
use crate::verbs::qp_ex::Builder;

/// What belongs to a queue pair.
pub(crate) struct QpOwn {
    pub(crate) qp: Qp,
    pub(crate) caps: QpCaps,
    pub(crate) signal_all: bool,
    pub(crate) unacked: Unacked,
    /// The list that `ibv_wr_*` builds.
    pub(crate) builder: Builder,
    /// It was made with operations for `ibv_wr_*`, so it may be used as extended.
    pub(crate) extended: bool,
    /// Shared by all handles of it (`ibv_open_qp`): the last one destroys it.
    pub(crate) handles: Arc<()>,
}

/// Behind either view of a queue pair: every one has the extended structure, which begins with
/// the plain one.
pub(crate) struct QpObject;

impl QpObject {
    /// # Safety
    /// Null, or created.
    #[inline]
    pub(crate) unsafe fn of<'a>(qp: *mut ibv_qp) -> Result<&'a QpOwn, Errno> {
        // SAFETY: the caller's promise; `ibv_qp_ex` begins with an `ibv_qp`.
        unsafe { Object::<ibv_qp_ex, QpOwn>::of(qp.cast()) }
    }

    /// For what a driver does without the kernel.
    ///
    /// # Safety
    /// As [`of`](Self::of).
    #[inline]
    pub(crate) unsafe fn whatever_handle<'a>(qp: *mut ibv_qp) -> Result<&'a QpOwn, Errno> {
        // SAFETY: the caller's promise, as above.
        unsafe { Object::<ibv_qp_ex, QpOwn>::whatever_handle(qp.cast()) }
    }
}

/// `ibv_destroy_qp(3)`: waits until fetched events are acknowledged. EBUSY while it is attached to
/// a multicast group.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: passed on.
    match unsafe { QpObject::of(qp) } {
        Ok(own) if own.qp.is_in_multicast() => errno(|| Err(Errno(libc::EBUSY))),
        // SAFETY: passed on.
        _ => unsafe { destroy(qp) },
    }
}

/// Likewise, and it leaves its multicast groups.
///
/// # Safety
/// As [`ibv_destroy_qp`].
pub(crate) unsafe fn destroy(qp: *mut ibv_qp) -> c_int {
    errno(|| {
        // SAFETY: the caller's promise.
        let own = unsafe { QpObject::of(qp) }?;
        if Arc::strong_count(&own.handles) == 1 {
            own.qp.destroy()?;
        }
        // SAFETY: as above.
        unsafe { Context::of((*qp).context) }?.forget_qp(own.qp.qpn(), qp);
        own.unacked.wait();
        // SAFETY: as above.
        unsafe { Object::<ibv_qp_ex, QpOwn>::free(qp.cast()) };
        Ok(())
    })
}

/// `ibv_qp_to_qp_ex(3)`: null for a queue pair that was made without its operations.
///
/// # Safety
/// Null, or created.
pub(crate) unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: the caller's promise.
    match unsafe { QpObject::whatever_handle(qp) } {
        Ok(own) if own.extended => qp.cast(),
        _ => std::ptr::null_mut(),
    }
}

//! The objects behind queue pairs.

use std::sync::Arc;

use device::{Qp, QpCaps};

use crate::abi::*;
use crate::boundary::Errno;
use crate::object::Object;
use crate::verbs::unacked::Unacked;
use crate::verbs::wr_builder::WrBuilder;

/// What belongs to a queue pair.
pub(crate) struct QpOwn {
    pub(crate) qp: Qp,
    pub(crate) caps: QpCaps,
    pub(crate) signal_all: bool,
    pub(crate) unacked: Unacked,
    /// The list that `ibv_wr_*` builds.
    pub(crate) builder: WrBuilder,
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

//! The objects behind queue pairs.

use std::sync::Arc;

use device::{Qp, QpCaps};

use crate::boundary::Errno;
use crate::object::CObject;
use crate::verbs::unacked::Unacked;
use crate::verbs::wr_builder::WrBuilder;
use abi::*;

/// Our part of a queue pair.
pub(crate) struct QpOwn {
    pub(crate) qp: Qp,
    pub(crate) caps: QpCaps,
    pub(crate) signal_all: bool,
    pub(crate) unacked: Unacked,
    /// The list that `ibv_wr_*` builds.
    pub(crate) builder: WrBuilder,
    /// The program asked for the operations of `ibv_wr_*`, so it may use the extended structure.
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
        // SAFETY: the contract of `of`: null, or created; `ibv_qp_ex` begins with an `ibv_qp`.
        unsafe { CObject::<ibv_qp_ex, QpOwn>::of(qp.cast()) }
    }

    /// For calls that a driver serves without the kernel.
    ///
    /// # Safety
    /// As [`of`](Self::of).
    #[inline]
    pub(crate) unsafe fn whatever_handle<'a>(qp: *mut ibv_qp) -> Result<&'a QpOwn, Errno> {
        // SAFETY: the contract of `whatever_handle`, which is that of `of`. The extended structure begins with the plain one.
        unsafe { CObject::<ibv_qp_ex, QpOwn>::whatever_handle(qp.cast()) }
    }
}

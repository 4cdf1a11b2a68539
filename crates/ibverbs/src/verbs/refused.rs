//! Verbs that this software device does not have, refused as their man pages say.

use crate::boundary::{Errno, set_errno};
use abi::*;

macro_rules! refused {
    ($($(#[$doc:meta])* $name:ident($($argument:ty),*) -> $type:ty = $answer:expr;)+) => {
        $(
            $(#[$doc])*
            pub(crate) extern "C" fn $name($(_: $argument),*) -> $type {
                set_errno(Errno::NOT_SUPPORTED);
                $answer
            }
        )+
    };
}

// A function without named arguments ignores those that it gets; in C's calling convention the caller removes them.
refused! {
    /// `ibv_reg_dmabuf_mr(3)`: memory of other devices cannot be reached by copying.
    ibv_reg_dmabuf_mr() -> *mut ibv_mr = std::ptr::null_mut();
    /// `ibv_dm_export_dmabuf_fd(3)`.
    ibv_dm_export_dmabuf_fd(*mut ibv_dm) -> c_int = -1;
    /// `ibv_alloc_dmah(3)`: steering tags are for PCI devices that write to memory.
    ibv_alloc_dmah(*mut ibv_context, *mut ibv_dmah_init_attr) -> *mut ibv_dmah = std::ptr::null_mut();
    /// `ibv_dealloc_dmah`.
    ibv_dealloc_dmah(*mut ibv_dmah) -> c_int = libc::EOPNOTSUPP;
    /// `ibv_create_comp_cntr`: completion counters.
    ibv_create_comp_cntr() -> *mut c_void = std::ptr::null_mut();
    /// `ibv_destroy_comp_cntr`.
    ibv_destroy_comp_cntr() -> c_int = libc::EOPNOTSUPP;
    /// `ibv_inc_comp_cntr`.
    ibv_inc_comp_cntr() -> c_int = libc::EOPNOTSUPP;
    /// `ibv_inc_err_comp_cntr`.
    ibv_inc_err_comp_cntr() -> c_int = libc::EOPNOTSUPP;
    /// `ibv_qp_attach_comp_cntr`.
    ibv_qp_attach_comp_cntr() -> c_int = libc::EOPNOTSUPP;
    /// `ibv_read_comp_cntr`.
    ibv_read_comp_cntr() -> c_int = libc::EOPNOTSUPP;
    /// `ibv_read_err_comp_cntr`.
    ibv_read_err_comp_cntr() -> c_int = libc::EOPNOTSUPP;
    /// `ibv_set_comp_cntr`.
    ibv_set_comp_cntr() -> c_int = libc::EOPNOTSUPP;
    /// `ibv_set_err_comp_cntr`.
    ibv_set_err_comp_cntr() -> c_int = libc::EOPNOTSUPP;
    /// `ibv_query_comp_cntr_caps`.
    _ibv_query_comp_cntr_caps() -> c_int = libc::EOPNOTSUPP;
    /// `ibv_query_ece(3)`: as of devices that have none.
    ibv_query_ece() -> c_int = libc::EOPNOTSUPP;
    /// `ibv_set_ece(3)`: enhanced connection establishment is for vendors' options.
    ibv_set_ece() -> c_int = libc::EOPNOTSUPP;
}

/// `ibv_fork_init(3)`: nothing to do. Memory is reached by its addresses, never pinned, so a
/// fork moves nothing away from it.
pub(crate) extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// `ibv_is_fork_initialized(3)`.
pub(crate) extern "C" fn ibv_is_fork_initialized() -> c_int {
    IBV_FORK_UNNEEDED
}

/// `ibv_dontfork_range`: for providers; see [`ibv_fork_init`].
pub(crate) extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: size_t) -> c_int {
    0
}

/// `ibv_dofork_range`.
pub(crate) extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: size_t) -> c_int {
    0
}

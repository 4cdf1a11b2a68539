//! The interface between libibverbs and its providers.
//!
//! Debian's libmlx5 and libefa are linked to programs and must load. They look for devices of
//! their own, find none, and never call the rest of this interface.

use crate::boundary::{Errno, set_errno};
use abi::{c_int, c_void};

/// Stands for every function that only providers call.
pub(crate) extern "C" fn not_supported() -> c_int {
    set_errno(Errno::NOT_SUPPORTED);
    Errno::NOT_SUPPORTED.0
}

/// The same for functions that return a pointer.
pub(crate) extern "C" fn no_pointer() -> *mut c_void {
    set_errno(Errno::NOT_SUPPORTED);
    std::ptr::null_mut()
}

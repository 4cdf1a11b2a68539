//! Multicast groups.

use device::Gid;

use crate::boundary::{Errno, errno};
use crate::verbs::qp_object::QpObject;
use abi::*;

/// `ibv_attach_mcast(3)`.
///
/// # Safety
/// A queue pair that exists and a readable GID.
pub(crate) unsafe extern "C" fn ibv_attach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_attach_mcast`: a queue pair that exists and a readable GID.
        let (own, gid) = unsafe { (QpObject::of(qp)?, group(gid)?) };
        Ok(own.qp.attach_multicast(gid)?)
    })
}

/// `ibv_detach_mcast(3)`.
///
/// # Safety
/// A queue pair that exists and a readable GID.
pub(crate) unsafe extern "C" fn ibv_detach_mcast(qp: *mut ibv_qp, gid: *const ibv_gid, _lid: u16) -> c_int {
    errno(|| {
        // SAFETY: the contract of `ibv_detach_mcast`: a queue pair that exists and a readable GID.
        let (own, gid) = unsafe { (QpObject::of(qp)?, group(gid)?) };
        Ok(own.qp.detach_multicast(gid)?)
    })
}

/// # Safety
/// Null, or readable.
unsafe fn group(gid: *const ibv_gid) -> Result<Gid, Errno> {
    // SAFETY: the contract of `group`: null, or readable; all bytes of a GID are valid.
    unsafe { gid.as_ref().map(|gid| Gid(gid.raw)) }.ok_or(Errno::INVAL)
}

//! Memory that the peer writes to directly.

use libc::{c_int, c_void, off_t, size_t};

use super::data::bytes;
use crate::boundary::hot::counted;
use crate::boundary::{Errno, zero};

/// Offers memory to the peer (`PROT_WRITE`) at an offset, −1 for its address.
///
/// # Safety
/// The memory stays until [`riounmap`] or the socket's end.
pub(crate) unsafe extern "C" fn riomap(
    socket: c_int,
    buf: *mut c_void,
    len: size_t,
    prot: c_int,
    _flags: c_int,
    offset: off_t,
) -> off_t {
    counted(|| {
        if prot & !libc::PROT_WRITE != 0 {
            return Err(Errno::INVAL);
        }
        let writable = prot & libc::PROT_WRITE != 0;
        let remote = if writable { device::Access::REMOTE_WRITE } else { device::Access::empty() };
        let access = device::Access::LOCAL_WRITE | remote;
        let pd = ::rsocket::protection_domain(socket)?;
        // SAFETY: the contract of `riomap`: the memory stays until [`riounmap`] or the socket's end.
        let mr = unsafe { pd.register(buf.cast(), len as u64, buf.addr() as u64, access) }?;
        let offset = u64::try_from(offset).ok();
        Ok(::rsocket::map(socket, mr, offset, writable)? as usize)
    }) as off_t
}

/// Ends that.
pub(crate) extern "C" fn riounmap(socket: c_int, buf: *mut c_void, len: size_t) -> c_int {
    zero(|| ::rsocket::unmap(socket, buf.addr() as u64, len as u64))
}

/// Writes into the peer's memory at an offset.
///
/// # Safety
/// `buf` points to `count` bytes.
pub(crate) unsafe extern "C" fn riowrite(
    socket: c_int,
    buf: *const c_void,
    count: size_t,
    offset: off_t,
    flags: c_int,
) -> size_t {
    counted(|| {
        let offset = u64::try_from(offset).map_err(|_| Errno::INVAL)?;
        // SAFETY: the contract of `riowrite`: `buf` points to `count` bytes.
        ::rsocket::write_mapped(socket, &unsafe { bytes(buf, count) }, offset, flags)
    }) as size_t
}

//! Sending and receiving.

use std::io::{IoSlice, IoSliceMut};

use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};

use super::address;
use crate::boundary::Errno;
use crate::boundary::hot::counted;

/// Vectors of one call at most, as the system has it.
const MAX_VECTORS: usize = 1024;

/// As recv(2).
///
/// # Safety
/// `buf` points to `len` writable bytes.
pub(crate) unsafe extern "C" fn rrecv(socket: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the contract of `rrecv`: `buf` points to `len` writable bytes.
    counted(|| Ok(::rsocket::recv(socket, &mut [unsafe { room(buf, len) }], flags)?.0))
}

/// As recvfrom(2).
///
/// # Safety
/// `buf` points to `len` writable bytes; `addrlen` is null or points to those at `src_addr`.
pub(crate) unsafe extern "C" fn rrecvfrom(
    socket: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    src_addr: *mut sockaddr,
    addrlen: *mut socklen_t,
) -> ssize_t {
    counted(|| {
        // SAFETY: the contract of `rrecvfrom` (see its Safety section).
        let (received, from) = ::rsocket::recv(socket, &mut [unsafe { room(buf, len) }], flags)?;
        if let Some(from) = from.filter(|_| received > 0) {
            // SAFETY: the contract of `rrecvfrom` (see its Safety section).
            unsafe { address::write(from, src_addr, addrlen) };
        }
        Ok(received)
    })
}

/// As recvmsg(2), without control data.
///
/// # Safety
/// As recvmsg(2).
pub(crate) unsafe extern "C" fn rrecvmsg(socket: c_int, msg: *mut msghdr, flags: c_int) -> ssize_t {
    counted(|| {
        // SAFETY: the contract of `rrecvmsg`: as recvmsg(2).
        let message = unsafe { msg.as_mut() }.ok_or(Errno(libc::EFAULT))?;
        check_no_control(message)?;
        // SAFETY: the contract of `rrecvmsg`: as recvmsg(2).
        let mut parts = unsafe { rooms(message.msg_iov, message.msg_iovlen) }?;
        let (received, from) = ::rsocket::recv(socket, &mut parts, flags)?;
        message.msg_flags = 0;
        if let Some(from) = from {
            // SAFETY: the contract of `rrecvmsg`: as recvmsg(2).
            unsafe { address::write(from, message.msg_name.cast(), &mut message.msg_namelen) };
        }
        Ok(received)
    })
}

/// As send(2).
///
/// # Safety
/// `buf` points to `len` bytes.
pub(crate) unsafe extern "C" fn rsend(socket: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the contract of `rsend`: `buf` points to `len` bytes.
    counted(|| ::rsocket::send(socket, &[unsafe { bytes(buf, len) }], flags, None))
}

/// As sendto(2).
///
/// # Safety
/// `buf` points to `len` bytes, `dest_addr` is null or points to `addrlen`.
pub(crate) unsafe extern "C" fn rsendto(
    socket: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    dest_addr: *const sockaddr,
    addrlen: socklen_t,
) -> ssize_t {
    counted(|| {
        // SAFETY: the contract of `rsendto`: `buf` points to `len` bytes, `dest_addr` is null or points to `addrlen`.
        let to = unsafe { destination(dest_addr, addrlen) }?;
        // SAFETY: the contract of `rsendto`: `buf` points to `len` bytes, `dest_addr` is null or points to `addrlen`.
        ::rsocket::send(socket, &[unsafe { bytes(buf, len) }], flags, to)
    })
}

/// As sendmsg(2), without control data.
///
/// # Safety
/// As sendmsg(2).
pub(crate) unsafe extern "C" fn rsendmsg(socket: c_int, msg: *const msghdr, flags: c_int) -> ssize_t {
    counted(|| {
        // SAFETY: the contract of `rsendmsg`: as sendmsg(2).
        let message = unsafe { msg.as_ref() }.ok_or(Errno(libc::EFAULT))?;
        check_no_control(message)?;
        // SAFETY: the contract of `rsendmsg`: as sendmsg(2).
        let to = unsafe { destination(message.msg_name.cast(), message.msg_namelen) }?;
        // SAFETY: the contract of `rsendmsg`: as sendmsg(2).
        let parts = unsafe { slices(message.msg_iov, message.msg_iovlen) }?;
        ::rsocket::send(socket, &parts, flags, to)
    })
}

/// As read(2).
///
/// # Safety
/// `buf` points to `count` writable bytes.
pub(crate) unsafe extern "C" fn rread(socket: c_int, buf: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the contract of `rread`: `buf` points to `count` writable bytes.
    unsafe { rrecv(socket, buf, count, 0) }
}

/// As readv(2).
///
/// # Safety
/// As readv(2).
pub(crate) unsafe extern "C" fn rreadv(socket: c_int, iov: *const iovec, iovcnt: c_int) -> ssize_t {
    counted(|| {
        // SAFETY: the contract of `rreadv`: as readv(2).
        let mut parts = unsafe { rooms(iov, usize::try_from(iovcnt).unwrap_or(usize::MAX)) }?;
        Ok(::rsocket::recv(socket, &mut parts, 0)?.0)
    })
}

/// As write(2).
///
/// # Safety
/// `buf` points to `count` bytes.
pub(crate) unsafe extern "C" fn rwrite(socket: c_int, buf: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the contract of `rwrite`: `buf` points to `count` bytes.
    unsafe { rsend(socket, buf, count, 0) }
}

/// As writev(2).
///
/// # Safety
/// As writev(2).
pub(crate) unsafe extern "C" fn rwritev(socket: c_int, iov: *const iovec, iovcnt: c_int) -> ssize_t {
    counted(|| {
        // SAFETY: the contract of `rwritev`: as writev(2).
        let parts = unsafe { slices(iov, usize::try_from(iovcnt).unwrap_or(usize::MAX)) }?;
        ::rsocket::send(socket, &parts, 0, None)
    })
}

fn check_no_control(message: &msghdr) -> Result<(), Errno> {
    let any = !message.msg_control.is_null() && message.msg_controllen > 0;
    if any { Err(Errno::NOT_SUPPORTED) } else { Ok(()) }
}

/// # Safety
/// Null, or `len` bytes.
unsafe fn destination(to: *const sockaddr, len: socklen_t) -> Result<Option<std::net::SocketAddr>, Errno> {
    if to.is_null() || len == 0 {
        return Ok(None);
    }
    // SAFETY: the contract of `destination`: null, or `len` bytes.
    unsafe { address::read(to, len) }.map(Some)
}

/// # Safety
/// `buf` points to `len` bytes that nobody changes meanwhile.
pub(super) unsafe fn bytes<'a>(buf: *const c_void, len: usize) -> IoSlice<'a> {
    if buf.is_null() {
        return IoSlice::new(&[]);
    }
    // SAFETY: the contract of `bytes`: `buf` points to `len` bytes that nobody changes meanwhile; no object is longer
    // than that.
    IoSlice::new(unsafe { std::slice::from_raw_parts(buf.cast(), len.min(isize::MAX as usize)) })
}

/// # Safety
/// `buf` points to `len` bytes that nobody else uses meanwhile.
unsafe fn room<'a>(buf: *mut c_void, len: usize) -> IoSliceMut<'a> {
    if buf.is_null() {
        return IoSliceMut::new(&mut []);
    }
    // SAFETY: the contract of `room`: `buf` points to `len` bytes that nobody else uses meanwhile; no object is
    // longer than that.
    IoSliceMut::new(unsafe { std::slice::from_raw_parts_mut(buf.cast(), len.min(isize::MAX as usize)) })
}

/// # Safety
/// `count` vectors, each with readable bytes.
unsafe fn slices<'a>(iov: *const iovec, count: usize) -> Result<Vec<IoSlice<'a>>, Errno> {
    check_count(iov, count)?;
    // SAFETY: the contract of `slices`: `count` vectors, each with readable bytes.
    Ok((0..count).map(|at| unsafe { bytes((*iov.add(at)).iov_base, (*iov.add(at)).iov_len) }).collect())
}

/// # Safety
/// `count` vectors, each with writable bytes.
unsafe fn rooms<'a>(iov: *const iovec, count: usize) -> Result<Vec<IoSliceMut<'a>>, Errno> {
    check_count(iov, count)?;
    // SAFETY: the contract of `rooms`: `count` vectors, each with writable bytes.
    Ok((0..count).map(|at| unsafe { room((*iov.add(at)).iov_base, (*iov.add(at)).iov_len) }).collect())
}

fn check_count(iov: *const iovec, count: usize) -> Result<(), Errno> {
    match (iov.is_null(), count) {
        (true, 1..) => Err(Errno(libc::EFAULT)),
        (_, 0..=MAX_VECTORS) => Ok(()),
        _ => Err(Errno::INVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_that_are_no_sockets_are_refused() {
        let errno = || std::io::Error::last_os_error().raw_os_error();
        // SAFETY: nothing is touched where there is no socket.
        unsafe {
            assert_eq!((rsend(-1, std::ptr::null(), 5, 0), errno()), (-1, Some(libc::EBADF)));
            assert_eq!((rrecv(1_000_000, std::ptr::null_mut(), 5, 0), errno()), (-1, Some(libc::EBADF)));
            assert_eq!((rwritev(0, std::ptr::null(), 1), errno()), (-1, Some(libc::EFAULT)));
            assert_eq!((rreadv(0, std::ptr::null(), -1), errno()), (-1, Some(libc::EFAULT)));
            assert_eq!((rsendmsg(0, std::ptr::null(), 0), errno()), (-1, Some(libc::EFAULT)));
        }
    }
}

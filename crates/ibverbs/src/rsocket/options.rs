//! Options and flags.

use libc::{c_int, c_void, socklen_t};

use crate::boundary::{Errno, minus_one, zero};

/// As setsockopt(2).
///
/// # Safety
/// `optval` points to `optlen` bytes.
pub(crate) unsafe extern "C" fn rsetsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *const c_void,
    optlen: socklen_t,
) -> c_int {
    zero(|| {
        if optval.is_null() && optlen > 0 {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: the contract of `rsetsockopt`: `optval` points to `optlen` bytes.
        let value = unsafe { super::data::bytes(optval, optlen as usize) };
        ::rsocket::set_option(socket, level, optname, &value)
    })
}

/// As getsockopt(2).
///
/// # Safety
/// `optlen` points to the number of writable bytes at `optval`.
pub(crate) unsafe extern "C" fn rgetsockopt(
    socket: c_int,
    level: c_int,
    optname: c_int,
    optval: *mut c_void,
    optlen: *mut socklen_t,
) -> c_int {
    zero(|| {
        if optval.is_null() || optlen.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        // SAFETY: the contract of `rgetsockopt`: `optlen` points to the number of writable bytes at `optval`; no more
        // is written than there is room for.
        unsafe {
            let room = optlen.read_unaligned() as usize;
            let value = ::rsocket::option(socket, level, optname, room)?;
            let len = value.len().min(room);
            std::ptr::copy_nonoverlapping(value.as_ptr(), optval.cast(), len);
            optlen.write_unaligned(len as socklen_t);
        }
        Ok(())
    })
}

/// As fcntl(2), for the flags. In C it takes any argument. That is the same where whole numbers are
/// passed in registers, as on all machines of this library.
pub(crate) extern "C" fn rfcntl(socket: c_int, cmd: c_int, argument: c_int) -> c_int {
    minus_one(|| match cmd {
        libc::F_GETFL => Ok(::rsocket::status_flags(socket)? | libc::O_RDWR),
        libc::F_SETFL => {
            ::rsocket::set_status_flags(socket, argument & !libc::O_ACCMODE)?;
            Ok(0)
        }
        // Our descriptors are closed at exec in any case.
        libc::F_GETFD => ::rsocket::status_flags(socket).map(|_| libc::FD_CLOEXEC),
        libc::F_SETFD => ::rsocket::status_flags(socket).map(|_| 0),
        _ => Err(Errno::NOT_SUPPORTED),
    })
}

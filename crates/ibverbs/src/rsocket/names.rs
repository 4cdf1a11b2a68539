//! Making sockets, naming them, and their end.

use std::net::Shutdown;

use libc::{c_int, sockaddr, socklen_t};

use super::address;
use crate::boundary::{Errno, minus_one, zero};

/// As socket(2).
pub(crate) extern "C" fn rsocket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    minus_one(|| {
        crate::verbs::log::start();
        ::rsocket::socket(domain, kind, protocol)
    })
}

/// As bind(2).
///
/// # Safety
/// `addr` points to `addrlen` bytes.
pub(crate) unsafe extern "C" fn rbind(socket: c_int, addr: *const sockaddr, addrlen: socklen_t) -> c_int {
    // SAFETY: the contract of `rbind`: `addr` points to `addrlen` bytes.
    zero(|| ::rsocket::bind(socket, unsafe { address::read(addr, addrlen) }?))
}

/// As listen(2).
pub(crate) extern "C" fn rlisten(socket: c_int, backlog: c_int) -> c_int {
    zero(|| ::rsocket::listen(socket, backlog))
}

/// As accept(2).
///
/// # Safety
/// `addrlen` is null or points to the writable bytes at `addr`.
pub(crate) unsafe extern "C" fn raccept(socket: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
    minus_one(|| {
        let accepted = ::rsocket::accept(socket)?;
        if let Ok(peer) = ::rsocket::peer_addr(accepted) {
            // SAFETY: the contract of `raccept`: `addrlen` is null or points to the writable bytes at `addr`.
            unsafe { address::write(peer, addr, addrlen) };
        }
        Ok(accepted)
    })
}

/// As connect(2).
///
/// # Safety
/// `addr` points to `addrlen` bytes.
pub(crate) unsafe extern "C" fn rconnect(socket: c_int, addr: *const sockaddr, addrlen: socklen_t) -> c_int {
    // SAFETY: the contract of `rconnect`: `addr` points to `addrlen` bytes.
    zero(|| ::rsocket::connect(socket, unsafe { address::read(addr, addrlen) }?))
}

/// As shutdown(2).
pub(crate) extern "C" fn rshutdown(socket: c_int, how: c_int) -> c_int {
    zero(|| {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Errno::INVAL),
        };
        ::rsocket::shutdown(socket, how)
    })
}

/// As close(2).
pub(crate) extern "C" fn rclose(socket: c_int) -> c_int {
    zero(|| ::rsocket::close(socket))
}

/// As getpeername(2).
///
/// # Safety
/// `addrlen` points to the writable bytes at `addr`.
pub(crate) unsafe extern "C" fn rgetpeername(socket: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
    zero(|| {
        let peer = ::rsocket::peer_addr(socket)?;
        // SAFETY: the contract of `rgetpeername`: `addrlen` points to the writable bytes at `addr`.
        unsafe { address::write(peer, addr, addrlen) };
        Ok(())
    })
}

/// As getsockname(2).
///
/// # Safety
/// `addrlen` points to the writable bytes at `addr`.
pub(crate) unsafe extern "C" fn rgetsockname(socket: c_int, addr: *mut sockaddr, addrlen: *mut socklen_t) -> c_int {
    zero(|| {
        let own = ::rsocket::local_addr(socket)?.unwrap_or_else(|| ([0, 0, 0, 0], 0).into());
        // SAFETY: the contract of `rgetsockname`: `addrlen` points to the writable bytes at `addr`.
        unsafe { address::write(own, addr, addrlen) };
        Ok(())
    })
}

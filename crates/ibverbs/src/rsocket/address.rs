//! Socket addresses of C.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};

use crate::boundary::Errno;

/// Reads an address of `len` bytes.
///
/// # Errors
/// `EINVAL` if it is too short, `EAFNOSUPPORT` for another family than the internet's.
///
/// # Safety
/// `address` points to `len` readable bytes.
pub(super) unsafe fn read(address: *const sockaddr, len: socklen_t) -> Result<SocketAddr, Errno> {
    let long_enough = |bytes: usize| if len as usize >= bytes { Ok(()) } else { Err(Errno::INVAL) };
    if address.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    long_enough(size_of::<libc::sa_family_t>())?;
    // SAFETY: as long as promised, which is checked before each.
    unsafe {
        match c_int::from((&raw const (*address).sa_family).read_unaligned()) {
            libc::AF_INET => {
                long_enough(size_of::<sockaddr_in>())?;
                let v4 = address.cast::<sockaddr_in>().read_unaligned();
                let ip = v4.sin_addr.s_addr.to_ne_bytes();
                Ok(SocketAddrV4::new(ip.into(), u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                long_enough(size_of::<sockaddr_in6>())?;
                let v6 = address.cast::<sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let (port, flow) = (u16::from_be(v6.sin6_port), u32::from_be(v6.sin6_flowinfo));
                Ok(SocketAddrV6::new(ip, port, flow, v6.sin6_scope_id).into())
            }
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        }
    }
}

/// Writes as much of an address as there is room for, and how long it is.
///
/// # Safety
/// `len` is null or points to the writable bytes at `to`, which may be null.
pub(super) unsafe fn write(address: SocketAddr, to: *mut sockaddr, len: *mut socklen_t) {
    if len.is_null() {
        return;
    }
    let (storage, whole) = storage(address);
    // SAFETY: not more than there is room for, and not more than a storage has.
    unsafe {
        let room = if to.is_null() { 0 } else { (len.read_unaligned() as usize).min(whole) };
        std::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), to.cast::<u8>(), room);
        len.write_unaligned(whole as socklen_t);
    }
}

fn storage(address: SocketAddr) -> (sockaddr_storage, usize) {
    // SAFETY: these structures are numbers, for which zero is good.
    unsafe {
        let mut storage: sockaddr_storage = std::mem::zeroed();
        let place = &raw mut storage;
        let len = match address {
            SocketAddr::V4(v4) => {
                let mut out: sockaddr_in = std::mem::zeroed();
                out.sin_family = libc::AF_INET as libc::sa_family_t;
                out.sin_port = v4.port().to_be();
                out.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                place.cast::<sockaddr_in>().write(out);
                size_of::<sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                let mut out: sockaddr_in6 = std::mem::zeroed();
                out.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                out.sin6_port = v6.port().to_be();
                out.sin6_flowinfo = v6.flowinfo().to_be();
                out.sin6_addr.s6_addr = v6.ip().octets();
                out.sin6_scope_id = v6.scope_id();
                place.cast::<sockaddr_in6>().write(out);
                size_of::<sockaddr_in6>()
            }
        };
        (storage, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip_and_lengths_are_checked() {
        for text in ["10.1.2.3:80", "[fe80::1%3]:443"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut bytes = [0u64; 16];
            let mut len = size_of_val(&bytes) as socklen_t;
            let place = bytes.as_mut_ptr().cast::<sockaddr>();
            // SAFETY: room as told.
            unsafe {
                write(address, place, &mut len);
                assert_eq!(read(place, len), Ok(address));
                assert_eq!(read(place, len - 1), Err(Errno::INVAL));
                let mut short = 2;
                write(address, place, &mut short);
                assert_eq!(short, len);
                assert_eq!(read(std::ptr::null(), 0), Err(Errno(libc::EFAULT)));
                short = 0;
                write(address, std::ptr::null_mut(), &mut short);
                assert_eq!(short, len);
            }
        }
        let unix = [libc::AF_UNIX as libc::sa_family_t; 8];
        // SAFETY: sixteen bytes.
        assert_eq!(unsafe { read(unix.as_ptr().cast(), 16) }, Err(Errno(libc::EAFNOSUPPORT)));
    }
}

//! Socket addresses of C.

use std::net::SocketAddr;

use libc::{c_int, sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

use crate::boundary::Errno;
use abi::socket_address::{length, storage, v4, v6};

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
                Ok(v4(&address.cast::<sockaddr_in>().read_unaligned()))
            }
            libc::AF_INET6 => {
                long_enough(size_of::<sockaddr_in6>())?;
                Ok(v6(&address.cast::<sockaddr_in6>().read_unaligned()))
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
    let (storage, whole) = (storage(address), length(address) as usize);
    // SAFETY: not more than there is room for, and not more than a storage has.
    unsafe {
        let room = if to.is_null() { 0 } else { (len.read_unaligned() as usize).min(whole) };
        std::ptr::copy_nonoverlapping((&raw const storage).cast::<u8>(), to.cast::<u8>(), room);
        len.write_unaligned(whole as socklen_t);
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
            // SAFETY: `len` is the number of bytes at `place`.
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
        // SAFETY: the array has the sixteen bytes.
        assert_eq!(unsafe { read(unix.as_ptr().cast(), 16) }, Err(Errno(libc::EAFNOSUPPORT)));
    }
}

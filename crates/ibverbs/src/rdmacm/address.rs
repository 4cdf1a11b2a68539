//! Socket addresses.

use std::net::SocketAddr;

use libc::{sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};

use crate::boundary::Errno;
use abi::socket_address::{v4, v6};
use abi::*;

/// Reads an address that a program gave.
///
/// # Errors
/// EINVAL for an unknown family, ENODEV for addresses of InfiniBand: no device has them.
///
/// # Safety
/// Null, or an address as long as its family's are.
pub(super) unsafe fn read(address: *const sockaddr) -> Result<SocketAddr, Errno> {
    if address.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the contract of `read`: null, or an address as long as its family's are; C's structures may lie
    // anywhere.
    unsafe {
        match c_int::from((&raw const (*address).sa_family).read_unaligned()) {
            libc::AF_INET => Ok(v4(&address.cast::<sockaddr_in>().read_unaligned())),
            libc::AF_INET6 => Ok(v6(&address.cast::<sockaddr_in6>().read_unaligned())),
            AF_IB => Err(Errno(libc::ENODEV)),
            _ => Err(Errno::INVAL),
        }
    }
}

/// `rdma_get_src_port(3)`: big-endian, zero if there is none.
///
/// # Safety
/// An id that exists.
pub(crate) unsafe extern "C" fn rdma_get_src_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: the contract of `rdma_get_src_port`: an id that exists.
    unsafe { if id.is_null() { 0 } else { port(&raw const (*id).route.addr.src_storage) } }
}

/// `rdma_get_dst_port(3)`: big-endian, zero if there is none.
///
/// # Safety
/// An id that exists.
pub(crate) unsafe extern "C" fn rdma_get_dst_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: the contract of `rdma_get_dst_port`: an id that exists.
    unsafe { if id.is_null() { 0 } else { port(&raw const (*id).route.addr.dst_storage) } }
}

/// # Safety
/// Room for an address of any family.
unsafe fn port(address: *const sockaddr_storage) -> u16 {
    // SAFETY: the contract of `port`: room for an address of any family.
    unsafe { read(address.cast()) }.map_or(0, |address| address.port().to_be())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_c_and_back() {
        for text in ["127.0.0.1:7471", "0.0.0.0:0", "[::1]:1", "[fe80::1%3]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let storage = abi::socket_address::storage(address);
            // SAFETY: the storage has room for an address of any family.
            assert_eq!(unsafe { read((&raw const storage).cast()) }, Ok(address));
        }
    }

    #[test]
    fn other_families_are_refused() {
        let mut storage = abi::socket_address::storage("1.2.3.4:5".parse().unwrap());
        for (family, error) in [(AF_IB, Errno(libc::ENODEV)), (libc::AF_UNIX, Errno::INVAL), (0, Errno::INVAL)] {
            storage.ss_family = family as libc::sa_family_t;
            // SAFETY: the storage has room for an address of any family.
            assert_eq!(unsafe { read((&raw const storage).cast()) }, Err(error));
        }
        // SAFETY: `read` accepts null.
        assert_eq!(unsafe { read(std::ptr::null()) }, Err(Errno::INVAL));
    }
}

//! Socket addresses of C, to and from those of Rust.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{sockaddr_in, sockaddr_in6, sockaddr_storage};

/// An address of IPv4.
pub fn v4(address: &sockaddr_in) -> SocketAddr {
    let ip = address.sin_addr.s_addr.to_ne_bytes();
    SocketAddrV4::new(ip.into(), u16::from_be(address.sin_port)).into()
}

/// An address of IPv6.
pub fn v6(address: &sockaddr_in6) -> SocketAddr {
    let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
    let (port, flow) = (u16::from_be(address.sin6_port), u32::from_be(address.sin6_flowinfo));
    SocketAddrV6::new(ip, port, flow, address.sin6_scope_id).into()
}

/// An address of IPv4 or IPv6; `None` for another family.
pub fn of_storage(storage: &sockaddr_storage) -> Option<SocketAddr> {
    let place = &raw const *storage;
    // SAFETY: the storage has room for an address of any family, and its alignment; any bytes are an address.
    unsafe {
        match libc::c_int::from(storage.ss_family) {
            libc::AF_INET => Some(v4(&*place.cast::<sockaddr_in>())),
            libc::AF_INET6 => Some(v6(&*place.cast::<sockaddr_in6>())),
            _ => None,
        }
    }
}

/// An address as C's structure.
pub fn storage(address: SocketAddr) -> sockaddr_storage {
    // SAFETY: all zero is an address of no family.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let place = &raw mut storage;
    // SAFETY: the storage has room for an address of any family, and its alignment.
    unsafe {
        match address {
            SocketAddr::V4(address) => {
                let to = &mut *place.cast::<sockaddr_in>();
                to.sin_family = libc::AF_INET as libc::sa_family_t;
                to.sin_port = address.port().to_be();
                to.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
            }
            SocketAddr::V6(address) => {
                let to = &mut *place.cast::<sockaddr_in6>();
                to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                to.sin6_port = address.port().to_be();
                to.sin6_flowinfo = address.flowinfo().to_be();
                to.sin6_addr.s6_addr = address.ip().octets();
                to.sin6_scope_id = address.scope_id();
            }
        }
    }
    storage
}

/// The number of bytes of a [`storage`] that the address takes.
pub fn length(address: SocketAddr) -> libc::socklen_t {
    let bytes = match address {
        SocketAddr::V4(_) => size_of::<sockaddr_in>(),
        SocketAddr::V6(_) => size_of::<sockaddr_in6>(),
    };
    bytes as libc::socklen_t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way_to_c_and_back() {
        for text in ["127.0.0.1:7471", "0.0.0.0:0", "[::1]:1", "[fe80::1%3]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(of_storage(&storage(address)), Some(address));
        }
    }

    #[test]
    fn another_family_is_no_address() {
        let mut other = storage(([127, 0, 0, 1], 1).into());
        other.ss_family = libc::AF_UNIX as libc::sa_family_t;
        assert_eq!(of_storage(&other), None);
    }
}

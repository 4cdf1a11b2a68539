//! The system's knowledge of the path to a destination.

use crate::address::{Family, RawAddress};
use crate::sys;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use wire::ROCE_PORT;

/// The longest IP packet in bytes, headers included, that reaches `destination` unfragmented as far as the
/// system knows. It is the outgoing interface's MTU, or less if routers reported less.
///
/// `interface` is the index of the outgoing interface, which IPv6 link-local destinations need; 0 leaves it
/// to the routing table. Connects a socket for a moment, which sends nothing.
///
/// # Errors
/// As `connect(2)`: `NetworkUnreachable` where there is no route.
pub fn path_mtu(destination: IpAddr, interface: u32) -> io::Result<u32> {
    let destination = destination.to_canonical();
    let (family, level, name) = match Family::of(&destination) {
        Family::V4 => (libc::AF_INET, libc::IPPROTO_IP, libc::IP_MTU),
        Family::V6 => (libc::AF_INET6, libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let socket = sys::socket(family, libc::SOCK_DGRAM, 0)?;
    let address = RawAddress::new(destination, ROCE_PORT, interface);
    sys::connect(socket.as_fd(), address.as_bytes())?;
    let mtu = sys::get(socket.as_fd(), level, name)?;
    u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The source address of packets to `destination` by the routing table. The source of an address of this
/// machine is that address itself. `interface` as for [`path_mtu`].
///
/// # Errors
/// As `connect(2)`: `NetworkUnreachable` where there is no route.
pub fn source_toward(destination: IpAddr, interface: u32) -> io::Result<IpAddr> {
    let destination = destination.to_canonical();
    let socket = sys::socket(Family::of(&destination).raw(), libc::SOCK_DGRAM, 0)?;
    sys::connect(socket.as_fd(), RawAddress::new(destination, ROCE_PORT, interface).as_bytes())?;
    let source = sys::local_address(socket.as_fd())?;
    source.map(|source| source.ip()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// True if an address is one of this machine's, so that packets can be sent from it. `interface` as for
/// [`path_mtu`].
pub(crate) fn is_local(address: IpAddr, interface: u32) -> bool {
    let address = address.to_canonical();
    let bind = || {
        let socket = sys::socket(Family::of(&address).raw(), libc::SOCK_DGRAM, 0)?;
        sys::bind(socket.as_fd(), RawAddress::new(address, 0, interface).as_bytes())
    };
    bind().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mtu_of_loopback_is_known() {
        let mtu = path_mtu("127.0.0.1".parse().unwrap(), 0).unwrap();
        assert!(mtu >= 1280, "{mtu}");
    }

    #[test]
    fn loopback_is_reached_from_itself() {
        for address in ["127.0.0.1", "::1"] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(source_toward(address, 0).unwrap(), address);
        }
    }

    #[test]
    fn local_addresses_are_told_from_others() {
        assert!(is_local("127.0.0.1".parse().unwrap(), 0));
        // Reserved for documentation (RFC 5737), so no machine has it.
        assert!(!is_local("198.51.100.77".parse().unwrap(), 0));
    }
}

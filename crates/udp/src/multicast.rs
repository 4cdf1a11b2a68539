//! Multicast membership of sockets.
//!
//! The behaviour of Linux for multicast to a reuse-port group, as observed and checked by the tests:
//!
//! * Slots play no part. Each socket that has joined the group on the interface gets its own copy, and no
//!   other socket gets any. (That needs
//!   `IP_MULTICAST_ALL` off: by default every socket on the port gets the groups of all sockets.)
//! * The sender's own machine gets copies too if it has members, and so does the sender's process.
//! * IPv4 multicast works over `lo` as over any interface: join on `lo` and send from 127.0.0.1.
//! * IPv6 multicast over `lo` fails (`ENETUNREACH`), since the kernel has no route for it there. The kernel
//!   accepts only a local route, which root can add: `ip -6 route add local ff00::/8 dev lo`. Then it works.
//! * Over Ethernet both work, for members on this machine and on others.

use crate::address::Family;
use crate::sys;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::BorrowedFd;

/// Makes a socket receive only the groups that it has joined itself. (By default Linux sockets receive every
/// group that any socket on the machine has joined.)
pub(crate) fn only_joined(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    sys::set(fd, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)?;
    match family {
        Family::V4 => Ok(()),
        Family::V6 => sys::set(fd, libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_ALL, 0),
    }
}

/// Joins `group` on the interface with that index.
pub(crate) fn join(fd: BorrowedFd<'_>, family: Family, group: IpAddr, interface: u32) -> io::Result<()> {
    match checked(family, group)? {
        IpAddr::V4(group) => {
            let request = ip_mreqn(group, interface);
            sys::set_bytes(fd, libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP, &request)
        }
        IpAddr::V6(group) => {
            let request = ipv6_mreq(group, interface);
            sys::set_bytes(fd, libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &request)
        }
    }
}

/// Leaves `group` on the interface with that index.
pub(crate) fn leave(fd: BorrowedFd<'_>, family: Family, group: IpAddr, interface: u32) -> io::Result<()> {
    match checked(family, group)? {
        IpAddr::V4(group) => {
            let request = ip_mreqn(group, interface);
            sys::set_bytes(fd, libc::IPPROTO_IP, libc::IP_DROP_MEMBERSHIP, &request)
        }
        IpAddr::V6(group) => {
            let request = ipv6_mreq(group, interface);
            sys::set_bytes(fd, libc::IPPROTO_IPV6, libc::IPV6_DROP_MEMBERSHIP, &request)
        }
    }
}

/// Leaves every group that the socket may have joined in this network namespace.
///
/// Linux does not tell which groups a socket has joined. But the machine's list contains all of them. Leaving
/// each group on that list leaves those of this socket, and fails for the rest.
pub(crate) fn leave_all(fd: BorrowedFd<'_>, family: Family) -> io::Result<()> {
    let groups = igmp_groups(&read_table("/proc/thread-self/net/igmp"));
    let groups6 = igmp6_groups(&read_table("/proc/thread-self/net/igmp6"));
    let usable = |group: &IpAddr| family == Family::V6 || group.is_ipv4();
    for (interface, group) in groups.into_iter().chain(groups6).filter(|(_, g)| usable(g)) {
        match leave(fd, family, group, interface) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Refuses an address that is not a multicast group, or is not of the socket's families.
fn checked(family: Family, group: IpAddr) -> io::Result<IpAddr> {
    let group = group.to_canonical();
    let fits = family == Family::V6 || group.is_ipv4();
    if group.is_multicast() && fits { Ok(group) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// `struct ip_mreqn`: group:4, local address:4, interface:4.
fn ip_mreqn(group: Ipv4Addr, interface: u32) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&group.octets());
    bytes[8..].copy_from_slice(&interface.to_ne_bytes());
    bytes
}

/// `struct ipv6_mreq`: group:16, interface:4.
fn ipv6_mreq(group: Ipv6Addr, interface: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[..16].copy_from_slice(&group.octets());
    bytes[16..].copy_from_slice(&interface.to_ne_bytes());
    bytes
}

/// A table of the kernel; empty where the protocol is missing.
fn read_table(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// `/proc/net/igmp`: a line `index device : count querier` for each interface, then an
/// indented line for each group, which begins with the group in the machine's order.
fn igmp_groups(table: &str) -> Vec<(u32, IpAddr)> {
    let mut interface = None;
    let mut groups = Vec::new();
    for line in table.lines().skip(1) {
        let first = line.split_ascii_whitespace().next().unwrap_or_default();
        if !line.starts_with(char::is_whitespace) {
            interface = first.parse().ok();
        } else if let (Some(interface), Ok(group)) = (interface, u32::from_str_radix(first, 16)) {
            groups.push((interface, IpAddr::from(group.to_ne_bytes())));
        }
    }
    groups
}

/// `/proc/net/igmp6`: `index device group …` with the group in hexadecimal.
fn igmp6_groups(table: &str) -> Vec<(u32, IpAddr)> {
    let group_of = |line: &str| {
        let mut columns = line.split_ascii_whitespace();
        let interface = columns.next()?.parse().ok()?;
        let group = u128::from_str_radix(columns.nth(1)?, 16).ok()?;
        Some((interface, IpAddr::from(Ipv6Addr::from(group))))
    };
    table.lines().filter_map(group_of).collect()
}

#[cfg(test)]
mod tests;

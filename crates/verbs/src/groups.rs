//! Membership in multicast groups of the network, beside that of queue pairs.
//!
//! `ibv_attach_mcast(3)` only tells the device. On Ethernet the host has to join the group as well: else no switch
//! sends it the group's packets, and Linux drops those that arrive (Annex A17.9.2).

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{set_ip_add_membership_with_ifindex, set_ipv6_add_membership};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

/// The host's membership in a group. It ends when the value is dropped.
#[derive(Debug)]
pub(crate) struct GroupMembership {
    _socket: OwnedFd,
}

impl GroupMembership {
    /// Joins a group on a network interface.
    ///
    /// # Errors
    /// If it is no multicast address, or the system allows the host no further group.
    pub(crate) fn join(group: IpAddr, interface: u32) -> io::Result<GroupMembership> {
        let family = if group.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = guest::high(socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?);
        match group {
            IpAddr::V4(group) => {
                set_ip_add_membership_with_ifindex(&socket, &group, &Ipv4Addr::UNSPECIFIED, interface)?;
            }
            IpAddr::V6(group) => set_ipv6_add_membership(&socket, &group, interface)?,
        }
        Ok(GroupMembership { _socket: socket })
    }
}

//! The network interfaces of this thread's network namespace.

use crate::{netlink, sys};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The kernel's number for it, unique in the namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// The length of the longest IP packet in bytes, headers included.
    pub mtu: u32,
    /// True if the interface is switched on.
    pub up: bool,
    /// True if the interface also has a link.
    pub running: bool,
    /// True if the interface only leads to this machine itself.
    pub loopback: bool,
    /// True if the interface has the multicast flag. (Loop-back has no such flag, yet it does multicast.)
    pub multicast: bool,
    /// Its Ethernet address, if it has one; all zero for loop-back.
    pub mac: Option<[u8; 6]>,
    /// Its usable addresses. IPv6 addresses are left out while the kernel checks them for duplicates, and if
    /// it has found a duplicate.
    pub addresses: Vec<InterfaceAddress>,
    /// The link's speed, if the driver reports it.
    pub speed_mbps: Option<u32>,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// The length of the network's prefix in bits.
    pub prefix_len: u8,
}

/// All interfaces of this thread's network namespace, in the order of their indices.
///
/// # Errors
/// If the kernel does not answer; otherwise as `socket(2)`.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let links = netlink::dump(libc::RTM_GETLINK, libc::RTM_NEWLINK, &[0; LINK_HEADER_BYTES])?;
    let addresses = netlink::dump(libc::RTM_GETADDR, libc::RTM_NEWADDR, &[0; ADDRESS_HEADER_BYTES])?;
    let mut interfaces: Vec<Interface> = links.iter().filter_map(link).collect();
    interfaces.sort_by_key(|interface| interface.index);
    for (index, address) in addresses.iter().filter_map(usable_address) {
        if let Some(interface) = interfaces.iter_mut().find(|i| i.index == index) {
            interface.addresses.push(address);
        }
    }
    for interface in &mut interfaces {
        interface.speed_mbps = sys::link::speed_mbps(&interface.name);
    }
    Ok(interfaces)
}

/// Reports changes of interfaces and their addresses.
#[derive(Debug)]
pub struct InterfaceMonitor {
    socket: OwnedFd,
}

impl InterfaceMonitor {
    /// Watches this thread's network namespace from this call on.
    ///
    /// # Errors
    /// As `socket(2)` and `bind(2)`.
    pub fn new() -> io::Result<InterfaceMonitor> {
        Ok(InterfaceMonitor { socket: netlink::subscribe()? })
    }

    /// True if anything has changed since the last call. Does not wait.
    ///
    /// # Errors
    /// As `recv(2)`.
    pub fn take_changes(&self) -> io::Result<bool> {
        netlink::take_changes(&self.socket)
    }
}

impl AsFd for InterfaceMonitor {
    /// Readable when there are changes to take.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Size of `struct ifinfomsg`: family:1 padding:1 type:2 index:4 flags:4 change:4.
const LINK_HEADER_BYTES: usize = 16;
/// Size of `struct ifaddrmsg`: family:1 prefix length:1 flags:1 scope:1 index:4.
const ADDRESS_HEADER_BYTES: usize = 8;
/// Flags of addresses that cannot be used: not yet checked for duplicates, or a duplicate.
const UNUSABLE: u32 = libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED;

fn link(body: &netlink::MessageBody) -> Option<Interface> {
    let [_, _, _, _, a, b, c, d, e, f, g, h, ..] = body.header::<LINK_HEADER_BYTES>()?;
    let flags = i32::from_ne_bytes([e, f, g, h]);
    let mut interface = Interface {
        index: u32::from_ne_bytes([a, b, c, d]),
        name: String::new(),
        mtu: 0,
        up: flags & libc::IFF_UP != 0,
        running: flags & libc::IFF_RUNNING != 0,
        loopback: flags & libc::IFF_LOOPBACK != 0,
        multicast: flags & libc::IFF_MULTICAST != 0,
        mac: None,
        addresses: Vec::new(),
        speed_mbps: None,
    };
    for (kind, data) in body.attributes(LINK_HEADER_BYTES) {
        match kind {
            libc::IFLA_IFNAME => interface.name = text(data),
            libc::IFLA_MTU => interface.mtu = integer(data)?,
            libc::IFLA_ADDRESS => interface.mac = data.try_into().ok(),
            _ => {}
        }
    }
    Some(interface)
}

/// Index of the interface and the address, if it can be used.
fn usable_address(body: &netlink::MessageBody) -> Option<(u32, InterfaceAddress)> {
    let [_, prefix_len, flags, _, index @ ..] = body.header::<ADDRESS_HEADER_BYTES>()?;
    let mut flags = u32::from(flags);
    let (mut address, mut local) = (None, None);
    for (kind, data) in body.attributes(ADDRESS_HEADER_BYTES) {
        match kind {
            libc::IFA_ADDRESS => address = ip_address(data),
            libc::IFA_LOCAL => local = ip_address(data),
            libc::IFA_FLAGS => flags = integer(data)?,
            _ => {}
        }
    }
    // On point-to-point links IFA_ADDRESS is the peer's address.
    let address = local.or(address)?;
    let usable = flags & UNUSABLE == 0;
    usable.then_some((u32::from_ne_bytes(index), InterfaceAddress { address, prefix_len }))
}

fn ip_address(data: &[u8]) -> Option<IpAddr> {
    match data.len() {
        4 => <[u8; 4]>::try_from(data).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(data).ok().map(IpAddr::from),
        _ => None,
    }
}

fn integer(data: &[u8]) -> Option<u32> {
    data.try_into().ok().map(u32::from_ne_bytes)
}

/// A zero-terminated string of the kernel.
fn text(data: &[u8]) -> String {
    let end = data.iter().position(|byte| *byte == 0).unwrap_or(data.len());
    String::from_utf8_lossy(&data[..end]).into_owned()
}

#[cfg(test)]
mod tests;

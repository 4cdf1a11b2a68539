//! Setup of interfaces, like the program `ip` but without starting processes. A child starts with
//! copies of all descriptors, so for a moment it may hold a port that a test has just closed.

use crate::netlink;
use std::io;
use std::net::IpAddr;

/// Attribute of `RTM_NEWLINK` that describes the other end of a virtual pair.
const VETH_INFO_PEER: u16 = 1;
const CREATE: i32 = libc::NLM_F_CREATE | libc::NLM_F_EXCL;

/// An interface of this thread's network namespace. All its functions panic if the system refuses.
pub struct TestInterface {
    index: u32,
}

impl TestInterface {
    /// The interface of that name.
    ///
    /// # Panics
    /// If there is no such interface.
    pub fn named(name: &str) -> TestInterface {
        let interfaces = crate::interfaces().expect("interfaces");
        let found = interfaces.iter().find(|interface| interface.name == name);
        TestInterface { index: found.unwrap_or_else(|| panic!("no interface {name}")).index }
    }

    /// Makes a pair of virtual interfaces of the same name. The other end is in the namespace of the
    /// descriptor `other_netns`.
    pub fn pair(name: &str, mtu: u32, other_netns: i32) -> TestInterface {
        let mut end = AttributeBuffer::default();
        end.push(libc::IFLA_IFNAME, &[name.as_bytes(), &[0]].concat());
        end.push(libc::IFLA_MTU, &mtu.to_ne_bytes());
        let mut other_end = AttributeBuffer(header(0, 0, 0).to_vec());
        other_end.0.extend_from_slice(&end.0);
        other_end.push(libc::IFLA_NET_NS_FD, &other_netns.to_ne_bytes());
        let mut data = AttributeBuffer::default();
        data.push(VETH_INFO_PEER, &other_end.0);
        let mut info = AttributeBuffer::default();
        info.push(libc::IFLA_INFO_KIND, b"veth");
        info.push(libc::IFLA_INFO_DATA, &data.0);
        end.push(libc::IFLA_LINKINFO, &info.0);
        request(libc::RTM_NEWLINK, CREATE, &header(0, 0, 0), &end);
        TestInterface::named(name)
    }

    /// The kernel's number for the interface.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Switches the interface on or off.
    pub fn set_up(&self, up: bool) {
        let flags = if up { libc::IFF_UP } else { 0 };
        let header = header(self.index, flags as u32, libc::IFF_UP as u32);
        request(libc::RTM_NEWLINK, 0, &header, &AttributeBuffer::default());
    }

    /// Sets the length of the longest IP packet.
    pub fn set_mtu(&self, mtu: u32) {
        self.set(libc::IFLA_MTU, &mtu.to_ne_bytes());
    }

    /// Sets the Ethernet address.
    pub fn set_mac(&self, mac: [u8; 6]) {
        self.set(libc::IFLA_ADDRESS, &mac);
    }

    /// Adds an address that can be used immediately.
    pub fn add_address(&self, address: IpAddr, prefix_len: u8) {
        self.address(libc::RTM_NEWADDR, address, address, prefix_len, libc::IFA_F_NODAD);
    }

    /// Adds an IPv6 address that the kernel checks for duplicates first.
    pub fn add_address_to_check(&self, address: IpAddr, prefix_len: u8) {
        self.address(libc::RTM_NEWADDR, address, address, prefix_len, 0);
    }

    /// Adds an address of a point-to-point link to one peer.
    pub fn add_address_with_peer(&self, address: IpAddr, peer: IpAddr) {
        self.address(libc::RTM_NEWADDR, address, peer, 32, 0);
    }

    /// Removes an address.
    pub fn remove_address(&self, address: IpAddr, prefix_len: u8) {
        self.address(libc::RTM_DELADDR, address, address, prefix_len, 0);
    }

    /// Makes all addresses of a network the machine's own, like `ip route add local`.
    pub fn add_local_route(&self, network: IpAddr, prefix_len: u8) {
        let (family, bytes) = in_bytes(network);
        let (table, protocol) = (libc::RT_TABLE_LOCAL, libc::RTPROT_BOOT);
        let (scope, kind) = (libc::RT_SCOPE_HOST, libc::RTN_LOCAL);
        let header = [family, prefix_len, 0, 0, table, protocol, scope, kind, 0, 0, 0, 0];
        let mut attributes = AttributeBuffer::default();
        attributes.push(libc::RTA_DST, &bytes);
        attributes.push(libc::RTA_OIF, &self.index.to_ne_bytes());
        request(libc::RTM_NEWROUTE, CREATE, &header, &attributes);
    }

    fn set(&self, attribute: u16, value: &[u8]) {
        let mut attributes = AttributeBuffer::default();
        attributes.push(attribute, value);
        request(libc::RTM_NEWLINK, 0, &header(self.index, 0, 0), &attributes);
    }

    fn address(&self, kind: u16, address: IpAddr, peer: IpAddr, prefix_len: u8, flags: u32) {
        let ((family, local), (_, peer)) = (in_bytes(address), in_bytes(peer));
        let [a, b, c, d] = self.index.to_ne_bytes();
        let mut attributes = AttributeBuffer::default();
        attributes.push(libc::IFA_LOCAL, &local);
        attributes.push(libc::IFA_ADDRESS, &peer);
        attributes.push(libc::IFA_FLAGS, &flags.to_ne_bytes());
        let flags = if kind == libc::RTM_NEWADDR { CREATE } else { 0 };
        request(kind, flags, &[family, prefix_len, 0, 0, a, b, c, d], &attributes);
    }
}

/// The attributes of a request, one after the other.
#[derive(Default)]
struct AttributeBuffer(Vec<u8>);

impl AttributeBuffer {
    fn push(&mut self, kind: u16, data: &[u8]) {
        let len = (4 + data.len()) as u16;
        self.0.extend_from_slice(&len.to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

/// `struct ifinfomsg`: family:1 padding:1 type:2 index:4 flags:4 flags to change:4.
fn header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..].copy_from_slice(&change.to_ne_bytes());
    bytes
}

fn in_bytes(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

fn request(kind: u16, flags: i32, header: &[u8], attributes: &AttributeBuffer) {
    let body = [header, &attributes.0].concat();
    let result: io::Result<()> = netlink::change(kind, flags, &body);
    result.unwrap_or_else(|error| panic!("netlink request {kind} with {body:?}: {error}"));
}

//! The kernel's socket addresses, encoded and decoded by safe code.
//!
//! IPv4-mapped IPv6 addresses, as dual-stack sockets report them, are converted to IPv4.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The internet protocol of a flow or a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// The family of an address; an IPv4-mapped IPv6 address counts as IPv4.
    pub fn of(address: &IpAddr) -> Family {
        match address.to_canonical() {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// The unspecified address of this family.
    pub(crate) fn unspecified(self) -> IpAddr {
        match self {
            Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// `AF_INET` or `AF_INET6`.
    pub(crate) fn raw(self) -> i32 {
        match self {
            Family::V4 => libc::AF_INET,
            Family::V6 => libc::AF_INET6,
        }
    }
}

/// Size of `struct sockaddr_in`.
const IN_BYTES: usize = size_of::<libc::sockaddr_in>();
/// Size of `struct sockaddr_in6`, the longest address used here.
const IN6_BYTES: usize = size_of::<libc::sockaddr_in6>();

/// A `struct sockaddr_in` or `sockaddr_in6` as bytes.
///
/// Layout, both in the machine's order for the family and network order for the rest:
/// `family:2 port:2 address:4 zero:8` and `family:2 port:2 flowinfo:4 address:16 scope:4`.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct RawAddress {
    bytes: [u8; IN6_BYTES],
    len_bytes: u32,
}

impl RawAddress {
    /// Room for an address that the kernel will write.
    pub(crate) const EMPTY: RawAddress = RawAddress { bytes: [0; IN6_BYTES], len_bytes: IN6_BYTES as u32 };

    /// The kernel's form of an IP address and port. `scope` is the interface of an IPv6 link-local address, 0
    /// for all others.
    pub(crate) fn new(address: IpAddr, port: u16, scope: u32) -> RawAddress {
        let mut raw = RawAddress::EMPTY;
        raw.bytes[2..4].copy_from_slice(&port.to_be_bytes());
        match address {
            IpAddr::V4(v4) => {
                raw.bytes[0..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
                raw.bytes[4..8].copy_from_slice(&v4.octets());
                raw.len_bytes = IN_BYTES as u32;
            }
            IpAddr::V6(v6) => {
                raw.bytes[0..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
                raw.bytes[8..24].copy_from_slice(&v6.octets());
                raw.bytes[24..28].copy_from_slice(&scope.to_ne_bytes());
            }
        }
        raw
    }

    /// The address, or `None` if it is of another family or cut short.
    pub(crate) fn decode(&self) -> Option<SocketAddr> {
        let family = i32::from(u16::from_ne_bytes([self.bytes[0], self.bytes[1]]));
        let port = u16::from_be_bytes([self.bytes[2], self.bytes[3]]);
        let len_bytes = self.len_bytes as usize;
        if family == libc::AF_INET && len_bytes >= IN_BYTES {
            let octets: [u8; 4] = self.bytes[4..8].try_into().ok()?;
            Some(SocketAddr::new(octets.into(), port))
        } else if family == libc::AF_INET6 && len_bytes >= IN6_BYTES {
            let octets: [u8; 16] = self.bytes[8..24].try_into().ok()?;
            Some(SocketAddr::new(IpAddr::from(octets).to_canonical(), port))
        } else {
            None
        }
    }

    /// The bytes in use.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len_bytes as usize]
    }

    /// The whole buffer, for the kernel to write to.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Records the number of bytes that the kernel wrote, at most the size of the buffer.
    pub(crate) fn set_len(&mut self, len_bytes: u32) {
        self.len_bytes = len_bytes.min(IN6_BYTES as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernel_s_form() {
        for text in ["192.0.2.7:4791", "[2001:db8::7]:49152", "[::]:0", "0.0.0.0:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let raw = RawAddress::new(address.ip(), address.port(), 0);
            assert_eq!(raw.decode(), Some(address));
        }
    }

    #[test]
    fn mapped_addresses_come_out_as_ipv4() {
        let mapped = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped();
        let raw = RawAddress::new(mapped.into(), 9, 0);
        assert_eq!(raw.decode(), Some("10.0.0.1:9".parse().unwrap()));
        assert_eq!(Family::of(&mapped.into()), Family::V4);
    }

    #[test]
    fn short_and_foreign_addresses_are_refused() {
        let mut raw = RawAddress::new("::1".parse().unwrap(), 9, 0);
        raw.set_len(27);
        assert_eq!(raw.decode(), None);
        raw.set_len(0);
        assert_eq!(raw.decode(), None);
        assert_eq!(RawAddress::EMPTY.decode(), None);
    }
}

//! The RDMA IP CM service (Annex A11): connections by IP address and port.
//!
//! The service id names port space and port. A header at the beginning of the REQ's private data
//! (or the SIDR_REQ's) gives the addresses and the source port.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Port space of the Linux RDMA CM for reliable connections, `RDMA_PS_TCP`.
pub const SPACE_TCP: u16 = 0x0106;
/// Port space of the Linux RDMA CM for datagrams, `RDMA_PS_UDP`.
pub const SPACE_UDP: u16 = 0x0111;
/// Port space of the Linux RDMA CM for IP over InfiniBand's groups, `RDMA_PS_IPOIB`.
pub const SPACE_IPOIB: u16 = 0x0002;
/// Port space of the Linux RDMA CM for native service ids, `RDMA_PS_IB`.
pub const SPACE_IB: u16 = 0x013f;

/// The service id of a port in a port space.
pub const fn service_id(space: u16, port: u16) -> u64 {
    (space as u64) << 16 | port as u64
}

/// Port space and port of a service id, if it is one of [`service_id`].
pub const fn space_and_port(service_id: u64) -> Option<(u16, u16)> {
    match service_id >> 32 {
        0 => Some(((service_id >> 16) as u16, service_id as u16)),
        _ => None,
    }
}

/// Addresses and source port of the connecting side.
///
/// ```text
///  byte 0                1                   2             4              20
///  | major 4, minor 4 | IP version 4, resv 4 | source port | source addr | destination addr |
///           1                  1                  2              16             16
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct IpCmHeader {
    /// Its address.
    pub source: IpAddr,
    /// Its port.
    pub source_port: u16,
    /// The address it connects to, of the same version.
    pub destination: IpAddr,
}

const VERSION: u8 = 0;

impl IpCmHeader {
    /// Bytes at the beginning of private data.
    pub const LEN: usize = 36;

    /// Reads the header. `None` if the version is not 0.0, or the IP version neither 4 nor 6.
    pub fn decode(bytes: &[u8; IpCmHeader::LEN]) -> Option<IpCmHeader> {
        if bytes[0] != VERSION {
            return None;
        }
        let ip = |at: usize| {
            let octets: [u8; 16] = core::array::from_fn(|i| bytes[at + i]);
            match bytes[1] >> 4 {
                4 => Some(IpAddr::from(Ipv4Addr::new(octets[12], octets[13], octets[14], octets[15]))),
                6 => Some(IpAddr::from(Ipv6Addr::from(octets))),
                _ => None,
            }
        };
        Some(IpCmHeader { source: ip(4)?, source_port: u16::from_be_bytes([bytes[2], bytes[3]]), destination: ip(20)? })
    }

    /// Reads the header at the beginning of private data.
    pub fn of_private_data(private_data: &[u8]) -> Option<IpCmHeader> {
        IpCmHeader::decode(private_data.first_chunk()?)
    }

    /// Writes the header. IPv4 if both addresses are, else IPv6, with IPv4 addresses mapped.
    pub fn encode(&self) -> [u8; IpCmHeader::LEN] {
        let mut bytes = [0; IpCmHeader::LEN];
        bytes[0] = VERSION;
        bytes[2..4].copy_from_slice(&self.source_port.to_be_bytes());
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes[1] = 4 << 4;
                bytes[16..20].copy_from_slice(&source.octets());
                bytes[32..36].copy_from_slice(&destination.octets());
            }
            (source, destination) => {
                bytes[1] = 6 << 4;
                bytes[4..20].copy_from_slice(&v6(source).octets());
                bytes[20..36].copy_from_slice(&v6(destination).octets());
            }
        }
        bytes
    }
}

fn v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped(),
        IpAddr::V6(v6) => v6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_ids_name_space_and_port() {
        assert_eq!(service_id(SPACE_TCP, 7174), 0x0106_1c06);
        assert_eq!(space_and_port(0x0111_1c06), Some((SPACE_UDP, 7174)));
        assert_eq!(space_and_port(0x1_0000_0000), None);
    }

    #[test]
    fn headers_of_both_versions() {
        let v4 = IpCmHeader { source: [10, 0, 0, 1].into(), source_port: 0x1234, destination: [10, 0, 0, 2].into() };
        let bytes = v4.encode();
        assert_eq!(bytes[..4], [0, 0x40, 0x12, 0x34]);
        assert_eq!((&bytes[4..16], &bytes[16..20]), (&[0; 12][..], &[10, 0, 0, 1][..]));
        assert_eq!(IpCmHeader::decode(&bytes), Some(v4));

        let v6: Ipv6Addr = "fd77::b".parse().expect("an address");
        let v6 = IpCmHeader { source: v6.into(), source_port: 9, destination: Ipv6Addr::LOCALHOST.into() };
        assert_eq!(v6.encode()[1], 0x60);
        assert_eq!(IpCmHeader::of_private_data(&v6.encode()), Some(v6));
    }

    #[test]
    fn malformed_headers_are_refused() {
        let good =
            IpCmHeader { source: [10, 0, 0, 1].into(), source_port: 1, destination: [10, 0, 0, 2].into() }.encode();
        for (at, value) in [(0, 0x10), (0, 0x01), (1, 0x00), (1, 0x50)] {
            let mut bytes = good;
            bytes[at] = value;
            assert_eq!(IpCmHeader::decode(&bytes), None);
        }
        assert_eq!(IpCmHeader::of_private_data(&good[..35]), None);
    }
}

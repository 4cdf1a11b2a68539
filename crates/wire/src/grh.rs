//! Global routing header: the 40 bytes before the payload in a UD receive buffer. RoCEv2 has none
//! on the wire; the buffer holds the IP header in its place (Annex A17).

use core::net::IpAddr;

use crate::ICRC_LEN;
use crate::flow::{Addresses, Flow};
use crate::gid::Gid;
use crate::ip::{Ipv4, Ipv6, Udp};

/// The addresses and IP header fields of a received UD packet.
///
/// ```text
///  bytes 0..20        20..40
///  | IPv6 header, 40 bytes |
///  | zeros | IPv4 header   |
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grh {
    /// The sender's GID.
    pub source: Gid,
    /// The receiver's GID, or the multicast group.
    pub destination: Gid,
    /// IPv4 TOS or IPv6 traffic class.
    pub traffic_class: u8,
    /// IPv6 flow label, 20 bits; 0 for IPv4.
    pub flow_label: u32,
    /// IPv4 TTL or IPv6 hop limit.
    pub hop_limit: u8,
    /// Bytes after the IP header: UDP header to ICRC.
    pub payload_len_bytes: u16,
}

impl Grh {
    /// Bytes in the receive buffer.
    pub const LEN: usize = 40;

    /// The header of a packet between two GIDs. `ib_len_bytes` is the packet's length from BTH to pad.
    pub fn new(source: Gid, destination: Gid, traffic_class: u8, hop_limit: u8, ib_len_bytes: usize) -> Grh {
        Grh {
            source,
            destination,
            traffic_class,
            flow_label: 0,
            hop_limit,
            payload_len_bytes: (Udp::LEN + ib_len_bytes + ICRC_LEN) as u16,
        }
    }

    /// Reads the IPv4 or IPv6 header; `None` if there is neither. The first twenty bytes before an IPv4 header may have
    /// any contents. Only if they look like those of an IPv6 header, the checksum of the IPv4 header decides: Linux rxe
    /// leaves it out between two queue pairs of one device.
    pub fn decode(bytes: &[u8; Grh::LEN]) -> Option<Grh> {
        let last = bytes.last_chunk::<{ Ipv4::LEN }>()?;
        if let Some(ip) = Ipv4::decode(last) {
            return Grh::from_ipv4(&ip);
        }
        match bytes[0] >> 4 {
            6 => Ipv6::decode(bytes).map(|ip| Grh::from_ipv6(&ip)),
            _ => Grh::from_ipv4(&Ipv4::decode_unsummed(last)?),
        }
    }

    /// Writes the 40 bytes: an IPv4 header in the last twenty if both GIDs are IPv4 addresses,
    /// else an IPv6 header.
    pub fn encode(&self) -> [u8; Grh::LEN] {
        match self.addresses() {
            Addresses::V4(source, destination) => {
                let ip = Ipv4 {
                    tos: self.traffic_class,
                    total_len_bytes: self.payload_len_bytes.saturating_add(Ipv4::LEN as u16),
                    identification: 0,
                    ttl: self.hop_limit,
                    source,
                    destination,
                };
                let mut bytes = [0; Grh::LEN];
                bytes[Grh::LEN - Ipv4::LEN..].copy_from_slice(&ip.encode());
                bytes
            }
            Addresses::V6(source, destination) => {
                let ip = Ipv6 {
                    traffic_class: self.traffic_class,
                    flow_label: self.flow_label,
                    payload_len_bytes: self.payload_len_bytes,
                    hop_limit: self.hop_limit,
                    source,
                    destination,
                };
                ip.encode()
            }
        }
    }

    fn addresses(&self) -> Addresses {
        let flow = Flow { source: self.source.ip(), destination: self.destination.ip(), source_port: 0 };
        flow.addresses()
    }

    fn from_ipv4(ip: &Ipv4) -> Option<Grh> {
        Some(Grh {
            source: IpAddr::V4(ip.source).into(),
            destination: IpAddr::V4(ip.destination).into(),
            traffic_class: ip.tos,
            flow_label: 0,
            hop_limit: ip.ttl,
            payload_len_bytes: ip.total_len_bytes.checked_sub(Ipv4::LEN as u16)?,
        })
    }

    fn from_ipv6(ip: &Ipv6) -> Grh {
        Grh {
            source: IpAddr::V6(ip.source).into(),
            destination: IpAddr::V6(ip.destination).into(),
            traffic_class: ip.traffic_class,
            flow_label: ip.flow_label,
            hop_limit: ip.hop_limit,
            payload_len_bytes: ip.payload_len_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grh(source: &str, destination: &str) -> Grh {
        let gid = |text: &str| Gid::from(text.parse::<IpAddr>().expect("an address"));
        Grh::new(gid(source), gid(destination), 0x2e, 61, 100)
    }

    #[test]
    fn ipv4_stands_in_the_last_twenty_bytes() {
        let bytes = grh("10.1.2.3", "239.0.0.1").encode();
        assert_eq!(bytes[..20], [0; 20]);
        assert_eq!(bytes[20], 0x45);
        assert_eq!(bytes[32..], [10, 1, 2, 3, 239, 0, 0, 1]);
        assert_eq!(u16::from_be_bytes([bytes[22], bytes[23]]), 20 + 8 + 100 + 4);
    }

    #[test]
    fn ipv6_fills_all() {
        let bytes = grh("fd00::1", "fd00::2").encode();
        assert_eq!(bytes[..4], [0x62, 0xe0, 0, 0]);
        assert_eq!(u16::from_be_bytes([bytes[4], bytes[5]]), 8 + 100 + 4);
        assert_eq!(bytes[8], 0xfd);
        assert_eq!(bytes[39], 2);
    }

    #[test]
    fn round_trips() {
        for header in [grh("10.1.2.3", "10.1.2.4"), grh("fd00::1", "ff0e::2")] {
            assert_eq!(Grh::decode(&header.encode()), Some(header));
        }
    }

    #[test]
    fn a_checksum_that_the_device_left_out_is_not_missed() {
        let header = grh("10.1.2.3", "10.1.2.4");
        let mut bytes = header.encode();
        bytes[30..32].fill(0);
        assert_eq!(Grh::decode(&bytes), Some(header));
        bytes[0] = 0x60;
        assert_eq!(Grh::decode(&bytes), None, "it could be either");
    }

    #[test]
    fn garbage_before_ipv4_does_not_matter_and_garbage_alone_is_nothing() {
        let header = grh("10.1.2.3", "10.1.2.4");
        let mut bytes = header.encode();
        bytes[..20].fill(0x60);
        assert_eq!(Grh::decode(&bytes), Some(header));
        bytes[39] ^= 1;
        assert_eq!(Grh::decode(&[0; 40]), None);
        assert_eq!(Grh::decode(&[0xff; 40]), None);
        // The bytes read as an IPv6 header, but its next header is not UDP.
        assert_eq!(Grh::decode(&bytes), None);
    }
}

//! The headers of datagram sockets.
//!
//! A datagram goes from queue pair to queue pair with a [`DatagramSource`] before it. While the number of
//! the peer's queue pair is not known it goes over UDP instead, with an [`Inquiry`] before it. The receiver
//! of one answers with an inquiry without data, and both know each other's number then.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use super::buffer::part;

const TAG: u32 = 0x5555_5555;
const OP_DATA: u8 = 0;
const OP_CONTROL: u8 = 7;

/// The sender of a datagram (`struct ds_header`). Ports and addresses are in network order.
///
/// ```text
///  0 version (4 or 6)  1 length  2 port   4 IPv4 address
///                                         4 flow information  8 IPv6 address
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DatagramSource(pub(crate) SocketAddr);

impl DatagramSource {
    /// The most bytes of one.
    pub(crate) const MAX_BYTES: usize = 24;
    const V4_BYTES: usize = 8;

    /// Bytes of this one.
    pub(crate) fn bytes(&self) -> usize {
        if self.0.is_ipv4() { DatagramSource::V4_BYTES } else { DatagramSource::MAX_BYTES }
    }

    /// Appends it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let version = if self.0.is_ipv4() { 4 } else { 6 };
        out.extend_from_slice(&[version, self.bytes() as u8]);
        out.extend_from_slice(&self.0.port().to_be_bytes());
        match self.0 {
            SocketAddr::V4(address) => out.extend_from_slice(&address.ip().octets()),
            SocketAddr::V6(address) => {
                out.extend_from_slice(&address.flowinfo().to_be_bytes());
                out.extend_from_slice(&address.ip().octets());
            }
        }
    }

    /// The header and the data behind it; `None` for an unknown version or family.
    pub(crate) fn split(bytes: &[u8]) -> Option<(DatagramSource, &[u8])> {
        let head: &[u8; DatagramSource::V4_BYTES] = bytes.first_chunk()?;
        let port = u16::from_be_bytes(part(head, 2));
        match (head[0], usize::from(head[1])) {
            (4, DatagramSource::V4_BYTES) => {
                let ip = Ipv4Addr::from(part::<4>(head, 4));
                Some((DatagramSource(SocketAddrV4::new(ip, port).into()), &bytes[DatagramSource::V4_BYTES..]))
            }
            (6, DatagramSource::MAX_BYTES) => {
                let whole: &[u8; DatagramSource::MAX_BYTES] = bytes.first_chunk()?;
                let flow = u32::from_be_bytes(part(whole, 4));
                let ip = Ipv6Addr::from(part::<16>(whole, 8));
                Some((DatagramSource(SocketAddrV6::new(ip, port, flow, 0).into()), &bytes[DatagramSource::MAX_BYTES..]))
            }
            _ => None,
        }
    }
}

/// The header of datagrams over UDP (`struct ds_udp_header`), in network order.
///
/// ```text
///  0 tag  4 version  5 operation  6 length  7 reserved  8 queue pair (low 24 bits)  12 address
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Inquiry {
    /// Data follows, and an answer is wanted.
    pub(crate) data: bool,
    /// The sender's queue pair.
    pub(crate) qpn: u32,
    /// The address that the queue pair has.
    pub(crate) address: IpAddr,
}

impl Inquiry {
    /// The most bytes of one.
    pub(crate) const MAX_BYTES: usize = 28;
    const V4_BYTES: usize = 16;

    /// Appends it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let (version, len) = if self.address.is_ipv4() { (4, Inquiry::V4_BYTES) } else { (6, Inquiry::MAX_BYTES) };
        out.extend_from_slice(&TAG.to_be_bytes());
        out.extend_from_slice(&[version, if self.data { OP_DATA } else { OP_CONTROL }, len as u8, 0]);
        out.extend_from_slice(&(self.qpn & 0xff_ffff).to_be_bytes());
        match self.address {
            IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
            IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
        }
    }

    /// The header and the data behind it; `None` for an unknown version or family.
    pub(crate) fn split(bytes: &[u8]) -> Option<(Inquiry, &[u8])> {
        let head: &[u8; Inquiry::V4_BYTES] = bytes.first_chunk()?;
        let data = match head[5] {
            OP_DATA => true,
            OP_CONTROL => false,
            _ => return None,
        };
        let qpn = u32::from_be_bytes(part(head, 8)) & 0xff_ffff;
        if u32::from_be_bytes(part(head, 0)) != TAG {
            return None;
        }
        let (address, rest): (IpAddr, &[u8]) = match (head[4], usize::from(head[6])) {
            (4, Inquiry::V4_BYTES) => (part::<4>(head, 12).into(), &bytes[Inquiry::V4_BYTES..]),
            (6, Inquiry::MAX_BYTES) => {
                let whole: &[u8; Inquiry::MAX_BYTES] = bytes.first_chunk()?;
                (part::<16>(whole, 12).into(), &bytes[Inquiry::MAX_BYTES..])
            }
            _ => return None,
        };
        Some((Inquiry { data, qpn, address }, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        for (text, head) in [("10.0.0.1:258", &[4, 8, 1, 2, 10, 0, 0, 1][..]), ("[::1]:1", &[6, 24, 0, 1][..])] {
            let source = DatagramSource(text.parse().unwrap());
            let mut bytes = Vec::new();
            source.encode(&mut bytes);
            assert_eq!(&bytes[..head.len()], head);
            assert_eq!(bytes.len(), source.bytes());
            bytes.extend_from_slice(b"hello");
            assert_eq!(DatagramSource::split(&bytes), Some((source, &b"hello"[..])));
            assert_eq!(DatagramSource::split(&bytes[..source.bytes() - 1]), None);
        }
        assert_eq!(DatagramSource::split(&[4, 24, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(DatagramSource::split(&[]), None);
    }

    #[test]
    fn inquiries() {
        for (text, len) in [("10.0.0.1", 16), ("fd00::1", 28)] {
            for data in [false, true] {
                let inquiry = Inquiry { data, qpn: 0x12_3456, address: text.parse().unwrap() };
                let mut bytes = Vec::new();
                inquiry.encode(&mut bytes);
                assert_eq!(bytes.len(), len);
                assert_eq!(bytes[..4], [0x55; 4]);
                assert_eq!(bytes[5], if data { 0 } else { 7 });
                assert_eq!(bytes[8..12], [0, 0x12, 0x34, 0x56]);
                bytes.push(9);
                assert_eq!(Inquiry::split(&bytes), Some((inquiry, &[9][..])));
                assert_eq!(Inquiry::split(&bytes[..len - 1]), None);
                bytes[0] = 0;
                assert_eq!(Inquiry::split(&bytes), None);
            }
        }
    }
}

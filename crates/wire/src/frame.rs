//! Whole frames: Ethernet II, IPv4 or IPv6, UDP. Captures, simulated networks and tests use them;
//! on a real network the kernel builds the frames.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::bytes::{array_at, u16_at};
use crate::flow::{Addresses, Flow};
use crate::ip::{Ipv4, Ipv6, Udp};

#[cfg(test)]
mod tests;

/// Bytes of the Ethernet header.
const ETHERNET_LEN: usize = 14;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

/// The most payload that fits a UDP datagram over IPv4 (one of IPv6 has room for 20 bytes more).
pub const MAX_UDP_PAYLOAD_BYTES: usize = 0xffff - Ipv4::LEN - Udp::LEN;

/// The fields of a decoded frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EthernetFrame<'a> {
    /// Addresses and source port.
    pub flow: Flow,
    /// IPv4 identification; 0 for IPv6.
    pub identification: u16,
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// IPv4 TTL or IPv6 hop limit.
    pub ttl: u8,
    /// The UDP payload: BTH to ICRC.
    pub payload: &'a [u8],
}

/// A payload longer than [`MAX_UDP_PAYLOAD_BYTES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{len_bytes} bytes do not fit a UDP datagram")]
pub struct TooLong {
    /// The payload's length.
    pub len_bytes: usize,
}

/// Appends the frame that carries `udp_payload`, with correct checksums. The Ethernet addresses
/// are derived from the IP addresses.
///
/// # Errors
/// If the payload does not fit a UDP datagram; `out` is unchanged then.
pub fn encode(
    flow: &Flow,
    identification: u16,
    tos: u8,
    ttl: u8,
    udp_payload: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), TooLong> {
    if udp_payload.len() > MAX_UDP_PAYLOAD_BYTES {
        return Err(TooLong { len_bytes: udp_payload.len() });
    }
    let udp = Udp { source_port: flow.source_port, len_bytes: (Udp::LEN + udp_payload.len()) as u16, checksum: 0 };
    match flow.addresses() {
        Addresses::V4(source, destination) => {
            let ip = Ipv4 {
                tos,
                total_len_bytes: udp.len_bytes + Ipv4::LEN as u16,
                identification,
                ttl,
                source,
                destination,
            };
            let udp = udp.with_checksum(&source.octets(), &destination.octets(), udp_payload);
            ethernet(source.into(), destination.into(), ETHERTYPE_IPV4, out);
            out.extend_from_slice(&ip.encode());
            out.extend_from_slice(&udp.encode());
        }
        Addresses::V6(source, destination) => {
            let ip = Ipv6 {
                traffic_class: tos,
                flow_label: 0,
                payload_len_bytes: udp.len_bytes,
                hop_limit: ttl,
                source,
                destination,
            };
            let udp = udp.with_checksum(&source.octets(), &destination.octets(), udp_payload);
            ethernet(source.into(), destination.into(), ETHERTYPE_IPV6, out);
            out.extend_from_slice(&ip.encode());
            out.extend_from_slice(&udp.encode());
        }
    }
    out.extend_from_slice(udp_payload);
    Ok(())
}

/// Decodes a frame. `None` if it is not UDP to the RoCEv2 port in an untagged Ethernet frame, has
/// IP options or extension headers, or is a fragment. Also `None` for wrong lengths or a wrong IPv4
/// header checksum. The UDP checksum is not checked: some senders leave it out, in captures it is
/// often incomplete, and the ICRC covers the same bytes.
pub fn decode(frame: &[u8]) -> Option<EthernetFrame<'_>> {
    let (ethernet, packet) = frame.split_first_chunk::<ETHERNET_LEN>()?;
    match u16_at(ethernet, 12) {
        ETHERTYPE_IPV4 => decode_ipv4(packet),
        ETHERTYPE_IPV6 => decode_ipv6(packet),
        _ => None,
    }
}

fn decode_ipv4(packet: &[u8]) -> Option<EthernetFrame<'_>> {
    let (header, rest) = packet.split_first_chunk::<{ Ipv4::LEN }>()?;
    let ip = Ipv4::decode(header)?;
    let datagram_len = usize::from(ip.total_len_bytes).checked_sub(Ipv4::LEN)?;
    let (source_port, payload) = decode_udp(rest.get(..datagram_len)?)?;
    Some(EthernetFrame {
        flow: Flow { source: ip.source.into(), destination: ip.destination.into(), source_port },
        identification: ip.identification,
        tos: ip.tos,
        ttl: ip.ttl,
        payload,
    })
}

fn decode_ipv6(packet: &[u8]) -> Option<EthernetFrame<'_>> {
    let (header, rest) = packet.split_first_chunk::<{ Ipv6::LEN }>()?;
    let ip = Ipv6::decode(header)?;
    let (source_port, payload) = decode_udp(rest.get(..usize::from(ip.payload_len_bytes))?)?;
    Some(EthernetFrame {
        flow: Flow { source: ip.source.into(), destination: ip.destination.into(), source_port },
        identification: 0,
        tos: ip.traffic_class,
        ttl: ip.hop_limit,
        payload,
    })
}

/// The source port and payload of a datagram that fills its IP packet.
fn decode_udp(datagram: &[u8]) -> Option<(u16, &[u8])> {
    let (header, payload) = datagram.split_first_chunk::<{ Udp::LEN }>()?;
    let udp = Udp::decode(header)?;
    (usize::from(udp.len_bytes) == datagram.len()).then_some((udp.source_port, payload))
}

fn ethernet(source: IpAddr, destination: IpAddr, ethertype: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&mac(destination));
    out.extend_from_slice(&mac(source));
    out.extend_from_slice(&ethertype.to_be_bytes());
}

/// The group's Ethernet address for multicast (RFC 1112, RFC 2464). For unicast, a locally
/// administered address with the last four octets of the IP address.
fn mac(address: IpAddr) -> [u8; 6] {
    match address {
        IpAddr::V4(v4) => mac_v4(v4),
        IpAddr::V6(v6) => mac_v6(v6),
    }
}

fn mac_v4(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    if address.is_multicast() { [0x01, 0x00, 0x5e, b & 0x7f, c, d] } else { [0x02, 0x00, a, b, c, d] }
}

fn mac_v6(address: Ipv6Addr) -> [u8; 6] {
    let [a, b, c, d] = array_at(&address.octets(), 12);
    if address.is_multicast() { [0x33, 0x33, a, b, c, d] } else { [0x02, 0x00, a, b, c, d] }
}

//! Packets of one flow that are sent together.

use super::error::SendError;
use super::limits::{DEFAULT_HOP_LIMIT, MAX_GSO_BYTES, MAX_SEGMENTS};
use super::socket::TxSocket;
use crate::address::RawAddress;
use crate::cmsg::ControlBuffer;
use crate::sys::mmsg::{TX_CONTROL_BYTES, TxMessage};
use std::net::IpAddr;
use wire::{Flow, ROCE_PORT};

/// Consecutive packets of one flow, all of the same length except the last, which may be shorter. Segment `i`
/// has the IPv4 identification `i`.
///
/// All packets should be for one slot of the destination, since they may arrive as one datagram.
#[derive(Clone, Copy, Debug)]
pub struct TxGroup<'a> {
    /// Addresses and source port; the port must come from
    /// [`TxPool::source_port`](super::TxPool::source_port).
    pub flow: Flow,
    /// IPv4 type of service or IPv6 traffic class, ECN bits included.
    pub traffic_class: u8,
    /// IPv4 time to live or IPv6 hop limit; 0 means 64.
    pub hop_limit: u8,
    /// The index of the interface to send from, which multicast and link-local destinations need; 0 leaves it
    /// to the routing table.
    pub interface: u32,
    /// The length of each packet except the last.
    pub segment_bytes: u16,
    /// The packets, each from its BTH to its ICRC.
    pub bytes: &'a [u8],
}

impl<'a> TxGroup<'a> {
    /// The number of packets in the group.
    pub fn segments(&self) -> usize {
        self.bytes.len().div_ceil(usize::from(self.segment_bytes).max(1))
    }

    /// Checks that the group is well formed.
    pub(super) fn check(&self) -> Result<(), SendError> {
        let len_bytes = self.bytes.len();
        let fits = self.segment_bytes != 0
            && (1..=MAX_GSO_BYTES).contains(&len_bytes)
            && self.segments() <= MAX_SEGMENTS
            && (self.flow.is_ipv4() || self.both_are_ipv6());
        if fits {
            return Ok(());
        }
        Err(SendError::Malformed { len_bytes, segment_bytes: self.segment_bytes.into() })
    }

    fn both_are_ipv6(&self) -> bool {
        let is_ipv6 = |address: IpAddr| address.to_canonical().is_ipv6();
        is_ipv6(self.flow.source) && is_ipv6(self.flow.destination)
    }

    /// The group in the kernel's form, to be sent from `socket`.
    pub(super) fn message(&self, socket: &TxSocket) -> TxMessage<'a> {
        let destination = self.flow.destination.to_canonical();
        TxMessage {
            destination: RawAddress::new(destination, ROCE_PORT, self.interface),
            control: self.control(socket),
            bytes: self.bytes,
        }
    }

    /// The control messages for all values that differ from the socket's defaults.
    fn control(&self, socket: &TxSocket) -> ControlBuffer<TX_CONTROL_BYTES> {
        let mut control = ControlBuffer::EMPTY;
        let pktinfo = !socket.has_address() || self.interface != 0;
        let (level, traffic_class, hop_limit) = match self.flow.source.to_canonical() {
            IpAddr::V4(source) => {
                if pktinfo {
                    control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &self.pktinfo(source.octets()));
                }
                (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL)
            }
            IpAddr::V6(source) => {
                if pktinfo {
                    control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &self.pktinfo6(source.octets()));
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT)
            }
        };
        if self.traffic_class != socket.traffic_class() {
            control.push(level, traffic_class, &i32::from(self.traffic_class).to_ne_bytes());
        }
        if self.hop_limit != 0 && self.hop_limit != DEFAULT_HOP_LIMIT {
            control.push(level, hop_limit, &i32::from(self.hop_limit).to_ne_bytes());
        }
        if self.bytes.len() > usize::from(self.segment_bytes) {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &self.segment_bytes.to_ne_bytes());
        }
        control
    }

    /// `struct in_pktinfo`: interface:4, source address:4, unused:4.
    fn pktinfo(&self, source: [u8; 4]) -> [u8; 12] {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&self.interface.to_ne_bytes());
        bytes[4..8].copy_from_slice(&source);
        bytes
    }

    /// `struct in6_pktinfo`: source address:16, interface:4.
    fn pktinfo6(&self, source: [u8; 16]) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[..16].copy_from_slice(&source);
        bytes[16..].copy_from_slice(&self.interface.to_ne_bytes());
        bytes
    }
}

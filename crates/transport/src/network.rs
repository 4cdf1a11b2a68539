//! A packet between a queue pair and the network: its addresses beside its bytes.

use wire::Gid;

use crate::wr::AddressVector;

/// The IP header fields of a packet that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecvMeta {
    /// The sender's address.
    pub source: Gid,
    /// The address it was sent to: ours, or a multicast group's.
    pub destination: Gid,
    /// IPv4 TOS or IPv6 traffic class, without its ECN bits where they are unknown.
    pub traffic_class: u8,
    /// Time to live.
    pub hop_limit: u8,
    /// A switch marked the packet: congestion experienced.
    pub ecn_ce: bool,
}

/// A packet that is ready to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// Its length from BTH to pad; the ICRC is yet to come.
    pub len_bytes: usize,
    /// The destination.
    pub address: AddressVector,
    /// The UDP source port of its flow.
    pub source_port: u16,
}

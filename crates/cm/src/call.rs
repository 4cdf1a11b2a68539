//! Arguments of [`Manager`](crate::Manager)'s calls.
//!
//! Times are codes of 5 bits as everywhere in the specification: 4.096 µs · 2^code.

use core::net::IpAddr;
use core::time::Duration;

use wire::{PKey, Psn, QKey, Qpn};

/// The addresses of a message's packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MadRoute {
    /// This host's.
    pub local: IpAddr,
    /// The peer's.
    pub remote: IpAddr,
    /// The network interface; zero means any.
    pub interface: u32,
    /// Traffic class (TOS) of the packets.
    pub traffic_class: u8,
}

/// A connection, by its local communication id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct ConnId(pub u32);

impl ConnId {
    /// The number of the manager that made it.
    pub fn number(self) -> u16 {
        (self.0 >> crate::ids::COUNTER_BITS) as u16
    }
}

/// The kind of connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ConnectionType {
    /// Reliable.
    Rc,
    /// Unreliable.
    Uc,
    /// Extended reliable: initiator to target.
    Xrc,
}

/// Enhanced connection establishment, as in Linux. All zero means none.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Ece {
    /// 24 bits.
    pub vendor_id: u32,
    /// The vendor's.
    pub options: u32,
}

/// A request of [`connect`](crate::Manager::connect).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectRequest<'a> {
    /// The addresses of the REQ, and of the path's GIDs.
    pub route: MadRoute,
    /// The requested service.
    pub service_id: u64,
    /// The kind of connection.
    pub qp_type: ConnectionType,
    /// Our queue pair.
    pub qpn: Qpn,
    /// The first PSN that we expect from the peer.
    pub starting_psn: Psn,
    /// Inbound READ and atomic operations that we accept at a time.
    pub responder_resources: u8,
    /// Outbound READ and atomic operations that we send at a time.
    pub initiator_depth: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Retries after ACK timeouts, at most 7.
    pub retry_count: u8,
    /// Retries after RNR NAKs, at most 7, which means without limit.
    pub rnr_retry_count: u8,
    /// Our queue pair has a shared receive queue.
    pub srq: bool,
    /// Path MTU code: 1 is 256 bytes, 5 is 4096.
    pub mtu: u8,
    /// The longest lifetime of a packet, as a time code.
    pub packet_lifetime: u8,
    /// Our device's ACK delay, as a time code.
    pub ack_delay: u8,
    /// Flow label of the connection's packets, 20 bits.
    pub flow_label: u32,
    /// Traffic class of the connection's packets.
    pub traffic_class: u8,
    /// Hop limit of the connection's packets.
    pub hop_limit: u8,
    /// Static rate code of the path; zero means the port's.
    pub packet_rate: u8,
    /// Partition.
    pub pkey: PKey,
    /// The time that the peer may take to answer, as a time code.
    pub remote_response_timeout: u8,
    /// The time that we may take to answer, as a time code.
    pub local_response_timeout: u8,
    /// Most repetitions of a message, at most 15.
    pub max_retries: u8,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// At most 92 bytes.
    pub private_data: &'a [u8],
}

impl ConnectRequest<'_> {
    /// A reliable connection with the defaults of the Linux RDMA CM over rxe.
    pub fn new(route: MadRoute, service_id: u64, qpn: Qpn, starting_psn: Psn) -> Self {
        ConnectRequest {
            route,
            service_id,
            qp_type: ConnectionType::Rc,
            qpn,
            starting_psn,
            responder_resources: 0,
            initiator_depth: 0,
            flow_control: false,
            retry_count: 7,
            rnr_retry_count: 7,
            srq: false,
            mtu: 3,
            packet_lifetime: LINUX_PACKET_LIFETIME,
            ack_delay: LINUX_ACK_DELAY,
            flow_label: 0,
            traffic_class: route.traffic_class,
            hop_limit: 64,
            packet_rate: 0,
            pkey: PKey(0xffff),
            remote_response_timeout: LINUX_RESPONSE_TIMEOUT,
            local_response_timeout: LINUX_RESPONSE_TIMEOUT,
            max_retries: LINUX_MAX_RETRIES,
            ece: Ece::default(),
            private_data: &[],
        }
    }
}

/// The answer of [`accept`](crate::Manager::accept).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectReply<'a> {
    /// Our queue pair.
    pub qpn: Qpn,
    /// The first PSN that we expect from the peer.
    pub starting_psn: Psn,
    /// Inbound READ and atomic operations that we accept at a time.
    pub responder_resources: u8,
    /// Outbound READ and atomic operations that we send at a time.
    pub initiator_depth: u8,
    /// Our device's ACK delay, as a time code.
    pub ack_delay: u8,
    /// End-to-end flow control.
    pub flow_control: bool,
    /// Retries after RNR NAKs, at most 7, which means without limit.
    pub rnr_retry_count: u8,
    /// Our queue pair has a shared receive queue.
    pub srq: bool,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// At most 196 bytes.
    pub private_data: &'a [u8],
}

impl ConnectReply<'_> {
    /// With the defaults of the Linux RDMA CM over rxe.
    pub fn new(qpn: Qpn, starting_psn: Psn) -> Self {
        ConnectReply {
            qpn,
            starting_psn,
            responder_resources: 0,
            initiator_depth: 0,
            ack_delay: LINUX_ACK_DELAY,
            flow_control: false,
            rnr_retry_count: 7,
            srq: false,
            ece: Ece::default(),
            private_data: &[],
        }
    }
}

/// A request of [`sidr_request`](crate::Manager::sidr_request).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrRequest<'a> {
    /// The addresses of the request.
    pub route: MadRoute,
    /// The requested service.
    pub service_id: u64,
    /// Partition.
    pub pkey: PKey,
    /// The time that one request waits for its answer.
    pub timeout: Duration,
    /// Most repetitions.
    pub max_retries: u8,
    /// At most 216 bytes.
    pub private_data: &'a [u8],
}

impl SidrRequest<'_> {
    /// With the timeouts of the Linux RDMA CM.
    pub fn new(route: MadRoute, service_id: u64) -> Self {
        SidrRequest {
            route,
            service_id,
            pkey: PKey(0xffff),
            timeout: crate::time::of_code(LINUX_RESPONSE_TIMEOUT),
            max_retries: LINUX_MAX_RETRIES,
            private_data: &[],
        }
    }
}

/// The answer of [`sidr_reply`](crate::Manager::sidr_reply).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrReply<'a> {
    /// See [`wire::mad::sidr_status`]: zero if the queue pair is valid.
    pub status: u8,
    /// The queue pair that serves.
    pub qpn: Qpn,
    /// Its key.
    pub qkey: QKey,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// Additional information, at most 72 bytes.
    pub info: &'a [u8],
    /// At most 136 bytes.
    pub private_data: &'a [u8],
}

/// Remote and local CM response timeout that the Linux RDMA CM sends.
pub const LINUX_RESPONSE_TIMEOUT: u8 = 20;
/// Most repetitions of the Linux RDMA CM.
pub const LINUX_MAX_RETRIES: u8 = 15;
/// The packet lifetime that the Linux RDMA CM assumes for RoCE paths.
pub const LINUX_PACKET_LIFETIME: u8 = 18;
/// The ACK delay that rxe reports.
pub const LINUX_ACK_DELAY: u8 = 15;

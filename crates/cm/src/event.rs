//! The outputs of a [`Manager`](crate::Manager).

use wire::mad::{Drep, Dreq, MAD_LEN, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq};
use wire::{Gid, PKey, Psn, QKey, Qpn};

use crate::call::{ConnId, ConnectionType, Ece, MadRoute};

/// A message to send, or an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ManagerOutput {
    /// Send a MAD from QP1 to QP1.
    Send {
        /// The addresses.
        route: MadRoute,
        /// The message.
        mad: [u8; MAD_LEN],
    },
    /// An event of a connection that the caller has not destroyed.
    Event {
        /// The connection.
        id: ConnId,
        /// Its event.
        event: CmEvent,
    },
}

/// An event of a connection.
///
/// ```text
///  active:   Delayed* (Reply | Rejected | Unreachable)
///  passive:  Request Delayed* (ReadyToUse | Rejected | Unreachable)
///  then:     (DisconnectRequest | Disconnected | Rejected)? TimewaitExit?
///  datagram: SidrRequest, or SidrReply | SidrUnreachable
/// ```
/// If the RTU is lost, a `DisconnectRequest` may come instead of `ReadyToUse`. `Unreachable` is the last event. So is a
/// `Rejected` before the connection was established, unless the reason is a stale connection. The id stays until the caller
/// destroys it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CmEvent {
    /// A peer asks for a connection; the id is new. Accept, delay or reject it, or destroy the id.
    Request(RequestReceived),
    /// The peer agrees. Confirm or reject it, or destroy the id.
    Reply(ReplyReceived),
    /// The peer has confirmed: the connection is established. Does not come after a call of
    /// [`established`](crate::Manager::established).
    ReadyToUse {
        /// Private data.
        private_data: [u8; Rtu::PRIVATE_LEN],
    },
    /// The peer needs more time for its answer.
    Delayed {
        /// The additional time, as a time code.
        service_timeout: u8,
        /// Private data.
        private_data: [u8; Mra::PRIVATE_LEN],
    },
    /// The peer refuses or has given up. Also ends an established connection, if the peer never
    /// took it for established.
    Rejected(RejectReceived),
    /// The peer has not answered any repetition of a REQ or REP.
    Unreachable,
    /// The peer wants to disconnect. [`disconnect`](crate::Manager::disconnect) agrees, and so does destroying the id.
    DisconnectRequest {
        /// Private data.
        private_data: [u8; Dreq::PRIVATE_LEN],
    },
    /// The connection is gone: our DREQ was answered, crossed the peer's, or was repeated to the limit.
    Disconnected {
        /// Private data of the answer; `None` without an answer.
        private_data: Option<[u8; Drep::PRIVATE_LEN]>,
    },
    /// The network holds no packet of the connection: its queue pair may be used again.
    TimewaitExit,
    /// A peer asks for the queue pair of a service; the id is new. Reply, or destroy the id.
    SidrRequest(SidrRequestReceived),
    /// The answer to our request.
    SidrReply(SidrReplyReceived),
    /// The peer has not answered any repetition of a SIDR_REQ.
    SidrUnreachable,
}

/// A REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestReceived {
    /// The addresses of the request, and of the answer.
    pub route: MadRoute,
    /// The requested service.
    pub service_id: u64,
    /// The kind of connection.
    pub qp_type: ConnectionType,
    /// The peer's queue pair.
    pub remote_qpn: Qpn,
    /// The first PSN that the peer expects.
    pub starting_psn: Psn,
    /// Inbound READ and atomic operations that the peer accepts at a time.
    pub responder_resources: u8,
    /// Outbound READ and atomic operations that the peer sends at a time.
    pub initiator_depth: u8,
    /// The peer has end-to-end flow control.
    pub flow_control: bool,
    /// Retries after ACK timeouts.
    pub retry_count: u8,
    /// Retries after RNR NAKs that the peer makes.
    pub rnr_retry_count: u8,
    /// The peer's queue pair has a shared receive queue.
    pub srq: bool,
    /// Path MTU code, which may be invalid.
    pub mtu: u8,
    /// GUID of the peer's device.
    pub remote_guid: u64,
    /// The peer's port.
    pub remote_gid: Gid,
    /// Our port, as the peer names it.
    pub local_gid: Gid,
    /// Flow label of the connection's packets.
    pub flow_label: u32,
    /// Traffic class of the connection's packets.
    pub traffic_class: u8,
    /// Hop limit of the connection's packets.
    pub hop_limit: u8,
    /// Static rate code of the path.
    pub packet_rate: u8,
    /// ACK timeout for our queue pair, as a time code.
    pub ack_timeout: u8,
    /// Partition.
    pub pkey: PKey,
    /// The time that we may take to answer, as a time code.
    pub response_timeout: u8,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// Private data.
    pub private_data: [u8; Req::PRIVATE_LEN],
}

/// A REP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyReceived {
    /// The peer's queue pair.
    pub remote_qpn: Qpn,
    /// The first PSN that the peer expects.
    pub starting_psn: Psn,
    /// Inbound READ and atomic operations that the peer accepts at a time.
    pub responder_resources: u8,
    /// Outbound READ and atomic operations that the peer sends at a time.
    pub initiator_depth: u8,
    /// The peer has end-to-end flow control.
    pub flow_control: bool,
    /// Retries after RNR NAKs that the peer makes.
    pub rnr_retry_count: u8,
    /// The peer's queue pair has a shared receive queue.
    pub srq: bool,
    /// GUID of the peer's device.
    pub remote_guid: u64,
    /// ACK timeout for our queue pair, as a time code: from the packet lifetime and the peer's ACK delay.
    pub ack_timeout: u8,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// Private data.
    pub private_data: [u8; Rep::PRIVATE_LEN],
}

/// A REJ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RejectReceived {
    /// See [`wire::mad::reason`].
    pub reason: u16,
    /// Valid bytes of `info`, at most 72.
    pub info_len: u8,
    /// Additional reject information.
    pub info: [u8; Rej::INFO_LEN],
    /// Private data.
    pub private_data: [u8; Rej::PRIVATE_LEN],
}

/// A SIDR_REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrRequestReceived {
    /// The addresses of the request, and of the answer.
    pub route: MadRoute,
    /// The requested service.
    pub service_id: u64,
    /// Partition.
    pub pkey: PKey,
    /// Private data.
    pub private_data: [u8; SidrReq::PRIVATE_LEN],
}

/// A SIDR_REP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrReplyReceived {
    /// See [`wire::mad::sidr_status`]: zero if the queue pair is valid.
    pub status: u8,
    /// The queue pair that serves.
    pub qpn: Qpn,
    /// Its key.
    pub qkey: QKey,
    /// Enhanced connection establishment.
    pub ece: Ece,
    /// Valid bytes of `info`, at most 72.
    pub info_len: u8,
    /// Additional information.
    pub info: [u8; SidrRep::INFO_LEN],
    /// Private data.
    pub private_data: [u8; SidrRep::PRIVATE_LEN],
}

/// The message that the hub sends to the peer if this process dies now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosingMad {
    /// The addresses.
    pub route: MadRoute,
    /// The message.
    pub mad: [u8; MAD_LEN],
    /// Whether it is a DREQ, which is repeated until a DREP comes or the attempts are used up.
    pub until_answered: bool,
}

//! What comes out of a [`Manager`](crate::Manager).

use wire::mad::{Drep, Dreq, MAD_LEN, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq};
use wire::{Gid, PKey, Psn, QKey, Qpn};

use crate::call::{ConnId, Ece, QpType, Route};

/// What to do, or what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Send a MAD from QP1 to QP1.
    Send {
        /// Where to.
        route: Route,
        /// What.
        mad: [u8; MAD_LEN],
    },
    /// Something happened to a connection that the caller has not destroyed.
    Event {
        /// Which.
        id: ConnId,
        /// What.
        event: Event,
    },
}

/// What happened to a connection.
///
/// ```text
///  active:   Delayed* (Reply | Rejected | Unreachable)
///  passive:  Request Delayed* (ReadyToUse | Rejected | Unreachable)
///  then:     (DisconnectRequest | Disconnected | Rejected)? TimewaitExit?
///  datagram: SidrRequest, or SidrReply | SidrUnreachable
/// ```
/// A `DisconnectRequest` may come instead of `ReadyToUse`: the RTU was lost. After `Unreachable`, and after a `Rejected`
/// of what was not established unless the reason is a stale connection, nothing more comes. The id stays until it is
/// destroyed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A peer asks for a connection; the id is new. Accept, delay or reject it, or destroy the id.
    Request(RequestReceived),
    /// The peer agrees. Confirm or reject it, or destroy the id.
    Reply(ReplyReceived),
    /// The peer has confirmed: established. Does not come if [`established`](crate::Manager::established) was
    /// called before.
    ReadyToUse {
        /// Private data.
        private_data: [u8; Rtu::PRIVATE_LEN],
    },
    /// The peer needs more time; so does the answer.
    Delayed {
        /// How much, as a time code.
        service_timeout: u8,
        /// Private data.
        private_data: [u8; Mra::PRIVATE_LEN],
    },
    /// The peer refuses or has given up. An established connection ends with it too, if the peer never
    /// knew that it was one.
    Rejected(RejectReceived),
    /// A REQ or REP was repeated to the limit and nobody answered.
    Unreachable,
    /// The peer wants to disconnect. [`disconnect`](crate::Manager::disconnect) agrees, and so does destroying the id.
    DisconnectRequest {
        /// Private data.
        private_data: [u8; Dreq::PRIVATE_LEN],
    },
    /// The connection is gone: our DREQ was answered, crossed one of the peer, or was repeated to the limit.
    Disconnected {
        /// Private data of the answer; `None`: there was none.
        private_data: Option<[u8; Drep::PRIVATE_LEN]>,
    },
    /// No packet of the connection is on its way any more: its queue pair may be used again.
    TimewaitExit,
    /// A peer asks who serves a service id; the id is new. Reply, or destroy the id.
    SidrRequest(SidrRequestReceived),
    /// The answer to our request.
    SidrReply(SidrReplyReceived),
    /// A SIDR_REQ was repeated to the limit and nobody answered.
    SidrUnreachable,
}

/// A REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestReceived {
    /// The way it came, and the answer will go.
    pub route: Route,
    /// Who is wanted.
    pub service_id: u64,
    /// The kind of connection.
    pub qp_type: QpType,
    /// The peer's queue pair.
    pub remote_qpn: Qpn,
    /// First PSN that we are to send to the peer.
    pub starting_psn: Psn,
    /// Inbound READ and atomic operations that the peer takes at a time.
    pub responder_resources: u8,
    /// Outbound READ and atomic operations that the peer wants at a time.
    pub initiator_depth: u8,
    /// The peer has end-to-end flow control.
    pub flow_control: bool,
    /// Retries after acknowledge timeouts.
    pub retry_count: u8,
    /// Retries after RNR NAKs that the peer makes.
    pub rnr_retry_count: u8,
    /// The peer's queue pair has a shared receive queue.
    pub srq: bool,
    /// Path MTU code. A peer may send one that means nothing.
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
    /// Acknowledge timeout for our queue pair, as a time code.
    pub ack_timeout: u8,
    /// Partition.
    pub pkey: PKey,
    /// How long we may take to answer, as a time code.
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
    /// First PSN that we are to send to the peer.
    pub starting_psn: Psn,
    /// Inbound READ and atomic operations that the peer takes at a time.
    pub responder_resources: u8,
    /// Outbound READ and atomic operations that the peer wants at a time.
    pub initiator_depth: u8,
    /// The peer has end-to-end flow control.
    pub flow_control: bool,
    /// Retries after RNR NAKs that the peer makes.
    pub rnr_retry_count: u8,
    /// The peer's queue pair has a shared receive queue.
    pub srq: bool,
    /// GUID of the peer's device.
    pub remote_guid: u64,
    /// Acknowledge timeout for our queue pair, as a time code, made of the packet lifetime and the peer's delay.
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
    /// Bytes of `info` that count, at most 72.
    pub info_len: u8,
    /// Additional reject information.
    pub info: [u8; Rej::INFO_LEN],
    /// Private data.
    pub private_data: [u8; Rej::PRIVATE_LEN],
}

/// A SIDR_REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SidrRequestReceived {
    /// The way it came, and the answer will go.
    pub route: Route,
    /// Who is wanted.
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
    /// Bytes of `info` that count, at most 72.
    pub info_len: u8,
    /// Additional information.
    pub info: [u8; SidrRep::INFO_LEN],
    /// Private data.
    pub private_data: [u8; SidrRep::PRIVATE_LEN],
}

/// What somebody else shall say if the owner of a connection dies now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosingMad {
    /// Where to.
    pub route: Route,
    /// What.
    pub mad: [u8; MAD_LEN],
    /// It is a DREQ: to be repeated until a DREP comes, within reason.
    pub until_answered: bool,
}

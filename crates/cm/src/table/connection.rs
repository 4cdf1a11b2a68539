//! One connection.

use core::time::Duration;

use wire::Qpn;
use wire::mad::MAD_LEN;

use super::{QpnKey, RemoteIdKey, SidrKey};
use crate::call::MadRoute;

/// The states of chapter 12.9.7. An MRA leads to no state of its own: it only moves the deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CmState {
    /// Active: waits for a REP.
    ReqSent,
    /// Passive: waits for the caller's decision.
    ReqReceived,
    /// Passive: waits for an RTU.
    RepSent,
    /// Active: waits for the caller's decision.
    RepReceived,
    /// Both sides agree.
    Established,
    /// Waits for a DREP.
    DreqSent,
    /// Waits for the caller's DREP.
    DreqReceived,
    /// The network may still hold packets.
    TimeWait,
    /// The caller rejected; the REJ is repeated when the request is.
    Refused,
    /// The caller rejected after its REP. The peer may take the connection for established, so the REJ is repeated a few
    /// times.
    Withdrawn,
    /// Waits for a SIDR_REP.
    SidrReqSent,
    /// Waits for the caller's answer.
    SidrReqReceived,
    /// Answered; the SIDR_REP is repeated when the request is.
    SidrAnswered,
    /// Over; waits to be destroyed.
    Idle,
}

impl CmState {
    /// Whether a peer opened it and the caller has not decided.
    pub(crate) fn is_half_open(self) -> bool {
        matches!(self, CmState::ReqReceived | CmState::RepSent | CmState::SidrReqReceived)
    }

    /// Whether it is kept only to repeat an answer.
    pub(crate) fn is_memory(self) -> bool {
        matches!(self, CmState::Refused | CmState::SidrAnswered)
    }
}

/// The repetition of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryTimer {
    pub(crate) interval: Duration,
    pub(crate) limit: u8,
    pub(crate) left: u8,
}

impl RetryTimer {
    pub(crate) fn new(interval: Duration, limit: u8) -> RetryTimer {
        RetryTimer { interval, limit, left: limit }
    }
}

/// The fields that the table's indexes depend on. Only the table changes them.
#[derive(Debug)]
pub(crate) struct IndexedFields {
    pub(super) state: CmState,
    pub(super) deadline: Option<Duration>,
    pub(super) remote_key: Option<RemoteIdKey>,
    pub(super) qpn_key: Option<QpnKey>,
    pub(super) sidr_key: Option<SidrKey>,
}

/// A connection or a datagram request.
#[derive(Debug)]
pub(crate) struct ConnectionRecord {
    pub(crate) place: IndexedFields,
    /// The caller still has the id.
    pub(crate) owned: bool,
    /// We sent the REQ.
    pub(crate) active: bool,
    pub(crate) route: MadRoute,
    /// The peer's communication id, once it is known.
    pub(crate) remote_id: Option<u32>,
    pub(crate) remote_guid: u64,
    pub(crate) remote_qpn: Qpn,
    pub(crate) local_qpn: Qpn,
    pub(crate) service_id: u64,
    /// The transaction id of the current exchange.
    pub(crate) transaction: u64,
    /// ACK timeout code of the path: the length of TIME-WAIT.
    pub(crate) ack_timeout: u8,
    /// The time after which the peer repeats its REQ.
    pub(crate) patience: Duration,
    pub(crate) retry: RetryTimer,
    /// The last message sent, for repetition.
    pub(crate) message: [u8; MAD_LEN],
    /// The MRA for a REQ or REP that comes again.
    pub(crate) receipt: Option<[u8; MAD_LEN]>,
}

impl ConnectionRecord {
    pub(crate) fn new(state: CmState, route: MadRoute) -> ConnectionRecord {
        ConnectionRecord {
            place: IndexedFields { state, deadline: None, remote_key: None, qpn_key: None, sidr_key: None },
            owned: true,
            active: false,
            route,
            remote_id: None,
            remote_guid: 0,
            remote_qpn: Qpn::new(0),
            local_qpn: Qpn::new(0),
            service_id: 0,
            transaction: 0,
            ack_timeout: 0,
            patience: Duration::ZERO,
            retry: RetryTimer::new(Duration::ZERO, 0),
            message: [0; MAD_LEN],
            receipt: None,
        }
    }

    pub(crate) fn state(&self) -> CmState {
        self.place.state
    }

    /// Whether a message of this route comes from the connection's peer.
    pub(crate) fn is_from_peer(&self, route: &MadRoute) -> bool {
        self.route.remote.to_canonical() == route.remote.to_canonical()
    }

    /// The peer's communication id for a message, zero if it is not known.
    pub(crate) fn remote_or_zero(&self) -> u32 {
        self.remote_id.unwrap_or(0)
    }
}

//! One connection.

use core::time::Duration;

use wire::Qpn;
use wire::mad::MAD_LEN;

use super::{QpnKey, RemoteKey, SidrKey};
use crate::call::Route;

/// The states of chapter 12.9.7. Having received an MRA is no state of its own: it only moves the deadline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Active: waits for a REP.
    ReqSent,
    /// Passive: waits for the caller's decision.
    ReqReceived,
    /// Passive: waits for an RTU.
    RepSent,
    /// Active: waits for the caller's decision.
    RepReceived,
    /// Both ends agree.
    Established,
    /// Waits for a DREP.
    DreqSent,
    /// Waits for the caller's DREP.
    DreqReceived,
    /// Packets may still be on their way.
    TimeWait,
    /// The caller rejected; the REJ is repeated if it did not arrive.
    Refused,
    /// The caller rejected after its REP: the peer may believe that it is connected, so the REJ is repeated a few
    /// times.
    Withdrawn,
    /// Waits for a SIDR_REP.
    SidrReqSent,
    /// Waits for the caller's answer.
    SidrReqReceived,
    /// Answered; the SIDR_REP is repeated if it did not arrive.
    SidrAnswered,
    /// Over; waits to be destroyed.
    Idle,
}

impl State {
    /// A peer opened it, and nothing is decided.
    pub(crate) fn is_half_open(self) -> bool {
        matches!(self, State::ReqReceived | State::RepSent | State::SidrReqReceived)
    }

    /// It is kept only to repeat an answer.
    pub(crate) fn is_memory(self) -> bool {
        matches!(self, State::Refused | State::SidrAnswered)
    }
}

/// How a message is repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retry {
    pub(crate) interval: Duration,
    pub(crate) limit: u8,
    pub(crate) left: u8,
}

impl Retry {
    pub(crate) fn new(interval: Duration, limit: u8) -> Retry {
        Retry { interval, limit, left: limit }
    }
}

/// What the table alone changes.
#[derive(Debug)]
pub(crate) struct Place {
    pub(super) state: State,
    pub(super) deadline: Option<Duration>,
    pub(super) remote_key: Option<RemoteKey>,
    pub(super) qpn_key: Option<QpnKey>,
    pub(super) sidr_key: Option<SidrKey>,
}

/// A connection or a datagram request.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) place: Place,
    /// The caller still has the id.
    pub(crate) owned: bool,
    /// We sent the REQ.
    pub(crate) active: bool,
    pub(crate) route: Route,
    /// The peer's communication id, once it is known.
    pub(crate) remote_id: Option<u32>,
    pub(crate) remote_guid: u64,
    pub(crate) remote_qpn: Qpn,
    pub(crate) local_qpn: Qpn,
    pub(crate) service_id: u64,
    /// Of the exchange under way.
    pub(crate) transaction: u64,
    /// Acknowledge timeout code of the path: how long TIME-WAIT is.
    pub(crate) ack_timeout: u8,
    /// How long the peer of a REQ waits before it repeats it.
    pub(crate) patience: Duration,
    pub(crate) retry: Retry,
    /// The last message sent: what is repeated.
    pub(crate) message: [u8; MAD_LEN],
    /// An MRA for a REQ or REP that comes again.
    pub(crate) receipt: Option<[u8; MAD_LEN]>,
}

impl Connection {
    pub(crate) fn new(state: State, route: Route) -> Connection {
        Connection {
            place: Place { state, deadline: None, remote_key: None, qpn_key: None, sidr_key: None },
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
            retry: Retry::new(Duration::ZERO, 0),
            message: [0; MAD_LEN],
            receipt: None,
        }
    }

    pub(crate) fn state(&self) -> State {
        self.place.state
    }

    /// Whether a message of this route comes from the connection's peer.
    pub(crate) fn is_from_peer(&self, route: &Route) -> bool {
        self.route.remote.to_canonical() == route.remote.to_canonical()
    }

    /// The peer's communication id for a message, zero if it is not known.
    pub(crate) fn remote_or_zero(&self) -> u32 {
        self.remote_id.unwrap_or(0)
    }
}

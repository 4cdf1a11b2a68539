//! Refused requests: the reason, and the effects on both ends.

use wire::NakCode;

use crate::completion::Status;
use crate::drop::DropReason;
use crate::host::QpEvent;
use crate::memory::MemoryError;
use crate::reason::Reason;

/// The reason for which a request is not executed.
#[derive(Debug)]
pub(super) enum RcRefusal {
    /// The peer broke a rule: NAK invalid request.
    Invalid(&'static str),
    /// The peer may not do this: NAK remote access error.
    Access(MemoryError),
    /// No receive WQE: RNR NAK.
    NotReady,
    /// Our own receive WQE is at fault: NAK remote operational error.
    Local(MemoryError),
    /// Our own handler of calls panicked: NAK remote operational error.
    CallPanicked,
    /// The message does not fit the receive WQE: NAK invalid request (C9-80).
    TooLong,
    /// The XRC domain has no such shared receive queue: NAK invalid RD request (Annex A14).
    NoSrq,
}

/// The effects of a refusal that ends the connection.
#[derive(Debug)]
pub(super) struct RefusalEffect {
    /// For the peer.
    pub(super) code: NakCode,
    /// For this queue pair, with the event that its owner gets.
    pub(super) reason: Reason,
    pub(super) event: Option<QpEvent>,
    pub(super) dropped: DropReason,
}

impl RcRefusal {
    /// Its effects. `NotReady` has none: its message comes again.
    pub(super) fn effect(self) -> RefusalEffect {
        let (code, reason, event) = match self {
            RcRefusal::Invalid(what) => {
                (NakCode::InvalidRequest, Reason::PeerBrokeProtocol(what), Some(QpEvent::RequestError))
            }
            RcRefusal::Access(e) => {
                (NakCode::RemoteAccessError, Reason::PeerAccessRefused(e), Some(QpEvent::AccessError))
            }
            RcRefusal::CallPanicked => (NakCode::RemoteOperationalError, Reason::CallPanicked, None),
            RcRefusal::Local(e) => (NakCode::RemoteOperationalError, Reason::LocalMemory(e), None),
            RcRefusal::NoSrq => {
                let what = "it names a shared receive queue that the XRC domain does not have";
                (NakCode::InvalidRdRequest, Reason::PeerBrokeProtocol(what), Some(QpEvent::RequestError))
            }
            RcRefusal::TooLong | RcRefusal::NotReady => (NakCode::InvalidRequest, Reason::MessageTooLong, None),
        };
        let dropped = if let RcRefusal::NoSrq = self { DropReason::XrcSrq } else { DropReason::Refused };
        RefusalEffect { code, reason, event, dropped }
    }
}

/// The status of the receive WQE whose message was refused.
pub(super) fn recv_status(reason: Reason) -> Status {
    match reason {
        Reason::LocalMemory(_) | Reason::MessageTooLong => reason.status(),
        Reason::PeerAccessRefused(_) => Status::LocalAccess,
        _ => Status::RemoteInvalidRequest,
    }
}

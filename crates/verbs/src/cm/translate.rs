//! Events of the library, in our words.

use std::ptr::NonNull;

use abi::rdma_cm_event;
use connect::{EventKind, Param};
use transport::QpType;
use wire::mad::reason;

use crate::cm::channel::UnackedEvent;
use crate::cm::{param, room};

/// The kind, status and parameters of an event.
pub(super) struct EventWords {
    pub(super) kind: EventKind,
    pub(super) status: i32,
    pub(super) param: Param,
}

impl EventWords {
    /// `None` for a kind that is newer than this crate. The event's owner has queue pairs of this type.
    pub(super) fn of(unacked: &UnackedEvent, qp_type: QpType) -> Option<EventWords> {
        let event = unacked.event();
        let kind = EventKind::from_number(event.event.cast_unsigned())?;
        // SAFETY: the event was not acknowledged, and it is about an id of this type.
        let param = unsafe { param_of(event, kind, qp_type) };
        Some(EventWords { kind, status: status(kind, event.status), param })
    }
}

/// # Safety
/// An event that was not acknowledged, about an id of this type.
unsafe fn param_of(event: &rdma_cm_event, kind: EventKind, qp_type: QpType) -> Param {
    use EventKind::{ConnectError, ConnectRequest, ConnectResponse, Disconnected, Established, Rejected, Unreachable};
    match kind {
        ConnectRequest | ConnectResponse | ConnectError | Unreachable | Rejected | Established | Disconnected => {}
        _ => return Param::None,
    }
    // SAFETY: the contract of `param_of`. The type tells the union's variant, and the id exists until the event is
    // acknowledged; it keeps its context open.
    unsafe {
        if qp_type == QpType::Ud {
            let mut datagram = param::datagram_of_c(&event.param.ud, NonNull::new((*event.id).verbs));
            datagram.private_data = room::fill(datagram.private_data, kind, qp_type);
            return Param::Datagram(datagram);
        }
        let mut connection = param::connection_of_c(&event.param.conn);
        connection.private_data = room::fill(connection.private_data, kind, qp_type);
        Param::Conn(connection)
    }
}

/// The status of an event. iWARP gives an errno for a rejection: that of the TCP connection, or ECONNRESET if the
/// program has refused.
fn status(kind: EventKind, status: i32) -> i32 {
    match (kind, -status) {
        (EventKind::Rejected, libc::ECONNREFUSED) => reason::INVALID_SERVICE_ID.into(),
        (EventKind::Rejected, 1..) => reason::CONSUMER.into(),
        _ => status,
    }
}

/// The event that stands for the error of `rdma_connect(3)`, if there is one. Devices of iWARP connect by TCP in that
/// call, where others answer with an event.
pub(super) fn of_failed_connect(errno: i32) -> Option<(EventKind, i32)> {
    match errno {
        libc::ECONNREFUSED => Some((EventKind::Rejected, reason::INVALID_SERVICE_ID.into())),
        libc::ETIMEDOUT | libc::EHOSTUNREACH | libc::ENETUNREACH => Some((EventKind::Unreachable, -errno)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_has_a_reason_on_every_transport() {
        assert_eq!(status(EventKind::Rejected, 10), 10);
        assert_eq!(status(EventKind::Rejected, -libc::ECONNREFUSED), 8);
        assert_eq!(status(EventKind::Rejected, -libc::ECONNRESET), 28);
        assert_eq!(status(EventKind::Unreachable, -libc::ETIMEDOUT), -libc::ETIMEDOUT);
    }

    #[test]
    fn a_refused_tcp_connection_is_a_rejection() {
        assert_eq!(of_failed_connect(libc::ECONNREFUSED), Some((EventKind::Rejected, 8)));
        assert_eq!(of_failed_connect(libc::EINVAL), None);
    }
}

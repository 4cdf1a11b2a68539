//! The connection manager's events about an id, as its owner gets them.

use super::active;
use super::id_state::{CmIdState, IdPhase};
use crate::event::{ConnParam, EventDetails, EventKind, Param};

/// Takes in an event. Returns the event for the id's owner, if it is to hear of it. `unreachable_status` is the
/// status if the peer does not answer.
pub(super) fn take_in(id: &mut CmIdState, event: &cm::CmEvent, unreachable_status: i32) -> Option<EventDetails> {
    match event {
        cm::CmEvent::Reply(reply) => Some(active::on_reply(id, reply)),
        cm::CmEvent::SidrReply(reply) => Some(active::on_sidr_reply(id, reply)),
        // Its private data is dropped: no call of a program sends any.
        cm::CmEvent::ReadyToUse { .. } => Some(established(id)),
        cm::CmEvent::Rejected(rejection) => rejected(id, rejection),
        cm::CmEvent::Unreachable | cm::CmEvent::SidrUnreachable => {
            let (kind, status) = (EventKind::Unreachable, unreachable_status);
            Some(ended(id, EventDetails { kind, status, param: Param::None }))
        }
        cm::CmEvent::DisconnectRequest { .. } | cm::CmEvent::Disconnected { .. } => disconnected(id),
        cm::CmEvent::TimewaitExit => Some(EventDetails::new(EventKind::TimewaitExit, Param::None)),
        cm::CmEvent::Request(_) | cm::CmEvent::SidrRequest(_) | cm::CmEvent::Delayed { .. } => None,
    }
}

/// The peer has confirmed, or its data has arrived.
pub(super) fn established(id: &mut CmIdState) -> EventDetails {
    id.phase = IdPhase::Established;
    EventDetails::new(EventKind::Established, Param::Conn(ConnParam::default()))
}

/// The peer refuses, or ends an established connection that it has not confirmed.
fn rejected(id: &mut CmIdState, rejection: &cm::RejectReceived) -> Option<EventDetails> {
    if id.phase == IdPhase::Established {
        return disconnected(id);
    }
    let param = ConnParam { private_data: rejection.private_data.to_vec(), ..ConnParam::default() };
    let (kind, status) = (EventKind::Rejected, rejection.reason.into());
    Some(ended(id, EventDetails { kind, status, param: Param::Conn(param) }))
}

/// The end of a connection is reported once.
fn disconnected(id: &mut CmIdState) -> Option<EventDetails> {
    (id.phase != IdPhase::Ended).then(|| ended(id, EventDetails::new(EventKind::Disconnected, Param::None)))
}

fn ended(id: &mut CmIdState, event: EventDetails) -> EventDetails {
    id.phase = IdPhase::Ended;
    event
}

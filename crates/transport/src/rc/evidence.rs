//! The evidence for a congestion notification (docs/security.md).

use core::time::Duration;

use wire::Packet;

use crate::congestion::Evidence;
use crate::drop::DropReason;
use crate::rc::requester::RcRequester;
use crate::rc::responder::RcResponder;
use crate::time::Time;

/// An unproven congestion notification counts for this long after a packet was sent. A loss corroborates it for as
/// long.
const LATELY: Duration = Duration::from_millis(10);

/// The evidence for the notification in `packet`. An error if nothing speaks for it.
pub(super) fn evidence_of(
    packet: &Packet<'_>,
    requester: &RcRequester,
    responder: &RcResponder,
    last_sent: Time,
    now: Time,
) -> Result<Evidence, DropReason> {
    let shared = [requester.shared_cookie(), responder.shared_cookie()];
    if shared.iter().any(Option::is_some) {
        let proven = packet.cnp().is_some_and(|cnp| shared.contains(&Some(cnp.cookie)));
        return if proven { Ok(Evidence::Proven) } else { Err(DropReason::UnprovenCnp) };
    }
    let sent_lately = last_sent != Time::NEVER && now.since(last_sent) <= LATELY;
    match sent_lately {
        // Congestion may be worst in the first round trip, and an attacker does not know when that is.
        true if requester.awaits_cookie() => Ok(Evidence::FirstRoundTrip),
        true if requester.lost_since(now - LATELY) => Ok(Evidence::Loss),
        true => Ok(Evidence::None),
        false => Err(DropReason::UnprovenCnp),
    }
}

//! Lanes of a link: the lane of a queue pair, frames that are only a head, and the wait for room.

use std::sync::Arc;

use shm::{Frame, LANES};
use transport::shm::frame::{FrameHead, HEAD_BYTES};
use wire::Qpn;

use crate::shm::link::ShmLink;

/// The resource that a queue pair with a peer on this host waits for.
#[derive(Clone)]
pub(crate) enum LaneWait {
    /// Room in a lane.
    Lane(Arc<ShmLink>, usize),
    /// A link to the process that has a slot.
    Link(u8),
}

impl LaneWait {
    /// Whether it may be over.
    pub(crate) fn may_be_over(&self) -> bool {
        match self {
            LaneWait::Lane(link, lane) => link.producer(*lane).has_much_room(),
            LaneWait::Link(_) => true,
        }
    }

    /// Sends a response on the lane. False if it has no room. A dead link needs no responses.
    pub(crate) fn send_response(&self, response: &FrameHead) -> bool {
        match self {
            LaneWait::Lane(link, _) => send_head(link, response) || link.is_dead(),
            LaneWait::Link(_) => true,
        }
    }
}

/// The lane that a queue pair of ours sends on.
#[inline]
pub(crate) fn of_qp(qpn: Qpn) -> usize {
    usize::from(qpn.index()) % LANES
}

/// The lane on which a frame with this head is sent.
pub(crate) fn of_head(head: &FrameHead) -> usize {
    of_qp(head.src)
}

/// Sends a frame that is only a head. False if the lane has no room.
pub(crate) fn send_head(link: &ShmLink, head: &FrameHead) -> bool {
    let mut lane = link.producer(of_head(head));
    let Some(mut room) = lane.reserve(HEAD_BYTES) else { return false };
    room.write(0, &head.encode());
    room.commit();
    true
}

/// The head of a frame, copied out before anything in it is used. `None` if it is malformed.
#[inline]
pub(crate) fn head_of(frame: &Frame<'_, '_>) -> Option<FrameHead> {
    let mut bytes = [0; HEAD_BYTES];
    if frame.copy_out(0, &mut bytes) { FrameHead::decode(&bytes) } else { None }
}

//! Synchronous ids: a call waits for its event, which the id shows until the next call.

use crate::boundary::Errno;
use crate::rdmacm::event_object::release_shown;
use crate::rdmacm::{event, id_object};
use abi::*;

/// Waits for the event of a call if the id is synchronous.
///
/// # Errors
/// The errno that the event stands for.
///
/// # Safety
/// An id that exists.
pub(super) unsafe fn complete(id: *mut rdma_cm_id) -> Result<(), Errno> {
    // SAFETY: the contract of `complete`: an id that exists.
    unsafe {
        let Some(channel) = id_object::of(id)?.waits_on() else { return Ok(()) };
        release_shown(id);
        let event = event::next(channel)?;
        (&raw mut (*id).event).write(event);
        outcome((*event).event, (*event).status)
    }
}

/// The result of the call that waited for an event: ECONNREFUSED after a rejection, else the event's
/// status.
fn outcome(kind: c_int, status: c_int) -> Result<(), Errno> {
    match (kind, status) {
        (RDMA_CM_EVENT_REJECTED, _) => Err(Errno(libc::ECONNREFUSED)),
        (RDMA_CM_EVENT_UNREACHABLE, 0) => Err(Errno(libc::ETIMEDOUT)),
        (RDMA_CM_EVENT_ADDR_ERROR | RDMA_CM_EVENT_ROUTE_ERROR, 0) => Err(Errno(libc::EHOSTUNREACH)),
        (RDMA_CM_EVENT_CONNECT_ERROR | RDMA_CM_EVENT_MULTICAST_ERROR, 0) => Err(Errno(libc::EIO)),
        (_, 0) => Ok(()),
        (_, status) => Err(Errno(status.saturating_abs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_the_errno_of_their_call() {
        let established = 9;
        assert_eq!(outcome(established, 0), Ok(()));
        assert_eq!(outcome(RDMA_CM_EVENT_REJECTED, 28), Err(Errno(libc::ECONNREFUSED)));
        assert_eq!(outcome(RDMA_CM_EVENT_UNREACHABLE, -libc::ETIMEDOUT), Err(Errno(libc::ETIMEDOUT)));
        assert_eq!(outcome(RDMA_CM_EVENT_ADDR_ERROR, -libc::ENODEV), Err(Errno(libc::ENODEV)));
        assert_eq!(outcome(RDMA_CM_EVENT_CONNECT_ERROR, 0), Err(Errno(libc::EIO)));
        assert_eq!(outcome(established, c_int::MIN), Err(Errno(c_int::MAX)));
    }
}

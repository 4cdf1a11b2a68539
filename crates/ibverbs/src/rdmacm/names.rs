//! Names of events, and events that programs write.

use ::connect::{EventKind, Param};

use crate::boundary::{Errno, minus_one};
use crate::rdmacm::id_object::of;
use abi::*;

/// By number.
const EVENTS: [&std::ffi::CStr; 20] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
    c"RDMA_CM_EVENT_ADDRINFO_RESOLVED",
    c"RDMA_CM_EVENT_ADDRINFO_ERROR",
    c"RDMA_CM_EVENT_USER",
    c"RDMA_CM_EVENT_INTERNAL",
];

/// `rdma_event_str(3)`.
pub(crate) extern "C" fn rdma_event_str(event: c_int) -> *const c_char {
    let name = usize::try_from(event).ok().and_then(|event| EVENTS.get(event));
    name.unwrap_or(&c"UNKNOWN EVENT").as_ptr()
}

/// `rdma_write_cm_event(3)`: EINVAL for any but the program's own events.
///
/// # Safety
/// Null or an id that exists.
pub(crate) unsafe extern "C" fn rdma_write_cm_event(
    c: *mut rdma_cm_id,
    event: c_int,
    status: c_int,
    argument: u64,
) -> c_int {
    minus_one(|| {
        // SAFETY: the contract of `rdma_write_cm_event`: null or an id that exists.
        let own = unsafe { of(c) }?;
        if event != RDMA_CM_EVENT_USER {
            return Err(Errno::INVAL);
        }
        own.id.post(EventKind::User, status, Param::Argument(argument));
        Ok(0)
    })
}

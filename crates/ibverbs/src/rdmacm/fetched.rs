//! An event on its way from the connection manager to the program.

use std::sync::Arc;

use ::connect::Event;

use crate::verbs::unacked::Unacked;
use abi::*;

/// An event on its way to the program. It counts with the id that waits until the program acknowledges it: the
/// listener for a connect request.
pub(super) struct FetchedEvent {
    pub(super) event: Event,
    /// The structure of the event's id.
    pub(super) id: *mut rdma_cm_id,
    /// The structure of a connect request's listener, else null.
    pub(super) listener: *mut rdma_cm_id,
    /// The program's own pointer in place of private data.
    pub(super) shown_context: *mut c_void,
    pub(super) counted: Arc<Unacked>,
}

//! The two paths of queue pairs: packets on the wire, and frames in shared memory.
//!
//! Each path sends for a locked queue pair, and hands locked queue pairs the packets or frames that arrive. It returns
//! what is left to do, and tells its [`PathSink`] of each queue pair that has taken something in. Neither path knows
//! the other or the engine.

pub(crate) mod shm;
pub(crate) mod shm_datagram;
pub(crate) mod shm_poll;
pub(crate) mod shm_receive;
pub(crate) mod wire;
mod wire_faults;
pub(crate) mod wire_flush;
mod wire_receive;

use std::sync::Arc;

use transport::Time;

use crate::path::wire_flush::SendRight;
use crate::qp::entry::{QpCell, QpEntry};
use crate::qp::host::Notices;
use crate::qp::services::QpServices;
use crate::wire::staging::Staging;

/// The receiver of a path's news.
pub(crate) trait PathSink {
    /// The notices of the calling thread.
    fn notices(&mut self) -> &mut Notices;

    /// A locked queue pair has taken packets or frames in: it may have something to send.
    fn look_after(&mut self, entry: &Arc<QpEntry>, cell: &mut QpCell);
}

/// One call of a path to send for a locked queue pair.
pub(crate) struct SendCall<'a> {
    pub(crate) services: &'a QpServices,
    pub(crate) entry: &'a Arc<QpEntry>,
    pub(crate) staging: &'a mut Staging<SendRight>,
    pub(crate) notices: &'a mut Notices,
    pub(crate) now: Time,
}

/// The outcome of a call to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Staged {
    /// There is nothing more to send for now.
    All,
    /// There may be more.
    Some,
    /// Another thread sends for the queue pair, and will look again.
    Busy,
}

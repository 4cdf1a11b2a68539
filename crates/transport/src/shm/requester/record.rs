//! Reports to a capture: requests that need no frame.

use super::*;
use crate::shm::path::{DirectOutcome, DirectRequest};

/// A request of the queue has ended, or a notice frame tells the peer of it.
#[inline]
pub(super) fn record<H: Host>(core: &QpCore, wqe: &SendWqe, outcome: DirectOutcome, host: &H) {
    if let Some(path) = host.path() {
        let solicited = wqe.flags.contains(SendFlags::SOLICITED);
        let (op, payload, pd, len_bytes) = (&wqe.op, &wqe.payload, core.pd, wqe.len_bytes);
        path.record(host.memory(), &DirectRequest { op, payload, pd, len_bytes, solicited }, outcome);
    }
}

/// Whether a capture records the connection.
#[inline]
pub(super) fn record_is_on<H: Host>(host: &H) -> bool {
    host.path().is_some_and(|path| path.is_recorded())
}

/// The oldest request has ended.
#[inline]
pub(super) fn record_head<H: Host>(core: &QpCore, outcome: DirectOutcome, host: &H) {
    if let Some(wqe) = core.sq.head() {
        record(core, wqe, outcome, host);
    }
}

/// A direct operation found no ready peer, or was refused.
#[cold]
pub(super) fn record_error(core: &QpCore, cursor: &ShmCursor, error: ShmError, host: &impl Host) {
    let Some(wqe) = core.sq.get(cursor.issued()) else { return };
    let is_direct = match wqe.op {
        SendOp::Write(_) | SendOp::WriteImm(..) => !wqe.executed && cursor.sent_bytes() == 0,
        SendOp::Read(_) | SendOp::Atomic(..) | SendOp::AtomicWrite(_) | SendOp::Flush { .. } => true,
        _ => false,
    };
    let outcome = match error {
        ShmError::Remote(error) => DirectOutcome::Refused(error),
        ShmError::PeerDead | ShmError::NotReady | ShmError::NeedsFrame => DirectOutcome::NoAnswer,
        ShmError::LaneFull | ShmError::Local(_) => return,
    };
    if is_direct {
        record(core, wqe, outcome, host);
    }
}

//! What a queue pair may do in which state: the table of state transitions, the
//! checks of `modify_qp` against it, and the checks of work requests as they are posted.
//!
//! ```text
//!             INIT       RTR        RTS            RTS ─► SQD ─► RTS   (drain the send queue)
//!  Reset ──► Init ──► Rtr ──► Rts ◄────► Sqd
//!                              │▲         │         UC, UD: a send failed
//!                              ▼└─────────┼── Sqe ◄─┘
//!  from anywhere: ──► Error ──► Reset     ▼
//! ```
//!
//! Nothing here moves a queue pair: [`Qp`](crate::Qp) does that when a check has passed.

mod modify;
mod post;
mod table;

#[cfg(test)]
mod tests;

pub(crate) use modify::{apply, check};
pub(crate) use post::{check_recv, check_send, unsupported};

use crate::attr::QpState;

/// Whether packets are looked at (IB specification 10.3.1).
pub(crate) fn receives(state: QpState) -> bool {
    matches!(state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe)
}

/// Whether requests go on: answers to them are looked at, and timers run (IB specification 10.3.1).
pub(crate) fn completes(state: QpState) -> bool {
    matches!(state, QpState::Rts | QpState::Sqd)
}

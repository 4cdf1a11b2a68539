//! The states of a queue pair: the table of state transitions, the checks of `modify_qp` against it, and the checks
//! of work requests as they are posted.
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

/// Whether the queue pair takes packets in this state (IB specification 10.3.1).
pub(crate) fn receives(state: QpState) -> bool {
    matches!(state, QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe)
}

/// Whether requests proceed in this state: responses are taken, and timers run (IB specification 10.3.1).
pub(crate) fn completes(state: QpState) -> bool {
    matches!(state, QpState::Rts | QpState::Sqd)
}

//! Work requests in flight, with the buffers that the device keeps for them.
//!
//! This is where the promise of the crate is kept. A buffer goes into a [`WorkQueue`] when its
//! request is posted. It comes out when the device has reported the completion, or when the queue
//! pair has been destroyed: never earlier, no matter which futures and tickets the program drops in
//! between.
//!
//! ```text
//!            post                 completion
//!  Empty ───────────► Lent ──────────────────────► Done ────► Empty
//!                      │        (somebody waits)        taken
//!                      ├──────────────────────────► ready list of the CQ
//!                      │        (poll mode)
//!                      └──────────────────────────► Empty, the buffer is freed
//!                               (nobody waits: the future was dropped)
//! ```

mod failure;
mod key;
mod loan;
mod queue;
mod slots;

pub use failure::Failure;
pub(crate) use key::RequestKey;
pub use key::Ticket;
pub use loan::Lend;
pub(crate) use loan::Loan;
pub(crate) use loan::{GRH_BYTES, Loanable};
pub(crate) use queue::{CompletionEffects, PreparedRequest, RequestStatus, WorkQueue};
pub(crate) use slots::{Delivery, FinishedRequest};

#[cfg(test)]
mod tests;

//! Many senders, one receiver: what a switch's queue does, and how fair the flows are, with each of the ways to
//! keep a network lossless.
//!
//! ```text
//!  sender 0  ─ link ─► ┌────────────────────────┐
//!  sender 1  ─ link ─► │ ingress accounts (PFC) │
//!    ...               │ one egress queue (ECN) │ ─ link ─► receiver: marks ─► CNP
//!  sender 63 ─ link ─► └────────────────────────┘
//! ```
//! The queue pairs are the real ones of `transport`, one connection for each sender, and their packets are real
//! packets. Links, switch and memory are models: responses return without waiting, and payload is not checked.

mod chart;
mod host;
mod page;
mod plan;
mod switch;
mod world;

pub use chart::chart;
pub use page::page;
pub use plan::{IncastPlan, IncastResult, LossControl, QueueSample};
pub use switch::SwitchSpec;

/// Runs a plan.
pub fn run(plan: &IncastPlan) -> IncastResult {
    world::IncastWorld::new(plan).run()
}

//! The server's side: listening, polling threads, handlers.
//!
//! ```text
//!  acceptor ── connection ──► worker (polling thread) ── short handlers run here
//!                                │      ▲
//!                                ▼      │ replies, by the inbox
//!                             executor, pool
//! ```

mod choice;
mod executor;
mod figures;
mod inbox;
mod opening;
mod running;
mod serving;
mod sessions;
mod stall;
mod waiting;
mod way;
mod worker;

pub use executor::Spawn;
pub use running::{Server, ServerBuilder, ServerStats};

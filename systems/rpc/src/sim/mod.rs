//! Deterministic simulation of sessions: real client and server sessions in real carriers, over a virtual network with
//! a virtual clock. It delays, loses and doubles, refuses requests, cuts connections, and crashes processes.
//!
//! ```text
//!  seed ─► RpcScenario ─► SimWorld ──────────────────────────────────────► SimReport, or a broken rule
//!                          │ clients and servers: ClientSession, ServerSession, applications
//!                          │ SimNetwork: WRITEs that land word by word, SENDs, READs, datagrams
//!                          └ Account: the calls, apart from the code under test
//! ```
//! The rules, each checked by an account that the sessions know nothing of:
//!
//! - A handler runs at most once for a request, with the bytes, the flags and the slot that the client sent.
//! - The outcome that the caller hears is true: `Executed::No` means never, before or after; `Executed::Yes` once; a
//!   reply is what the handler produced. `Executed::Unknown` comes from a lost connection or a deadline alone.
//! - Every call ends, once, in bounded time. Deadlines end calls in time, and no handler starts after one.
//! - At the end no slot is taken, nothing is unsent, and nobody exposes memory.
//! - Nobody READs memory that its owner has withdrawn, or WRITEs beyond the end of an area.
//! - A server that drains answers what it had accepted, and refuses the rest.
//! - A hostile peer brings no panic, and disturbs no other session.

mod account;
mod agenda;
mod area;
mod bytes;
mod client;
mod clocks;
#[cfg(test)]
mod found;
mod hostile;
mod link;
mod network;
mod rest;
mod run;
mod scenario;
mod server;
#[cfg(test)]
mod tests;
mod trace;
mod ways;
mod world;

use fastrand::Rng;

pub use run::{SimFailure, SimReport, run_seed, trace_seed};
pub use ways::SimWay;

/// True with that probability.
fn chance(rng: &mut Rng, probability: f64) -> bool {
    probability > 0.0 && rng.f64() < probability
}

/// One of several.
fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}

//! Deterministic simulation of the transport: real queue pairs and real registered memory
//! on a virtual clock, over a network that loses, doubles, reorders, delays, damages and cuts.
//!
//! ```text
//!  seed ─► Scenario ─► World ─────────────────────────────────────────────► Report or Violation
//!                       │ nodes: memory::Registry, transport::Qp, receive buffer
//!                       │ applications: random work requests, drawn as they go
//!                       │ fabric: latency, faults, partitions; packets with ICRC
//!                       └ checkers: each keeps its own account of what must come out
//! ```
//! Everything follows from one number. A seed decides the scenario (service, MTU,
//! queue depths, faults, ...), and with it every packet. A seed that breaks a rule breaks it
//! again, on every machine:
//!
//! ```text
//! cargo run -p longarm-sim -- --seed 12345 --trace
//! ```
//!
//! The rules, each checked by an account that the code under test knows nothing of:
//!
//! - Every work request completes exactly once and in order, as what it was; unsignaled
//!   successes are silent; after a failure everything is flushed.
//! - Every message received is the one that was sent: bytes, length, immediate data, source,
//!   order. On RC all arrive, on UC in order or not at all.
//! - Remote memory equals a model; of a dead connection, a model of some first packets of
//!   what it had not confirmed. Guards around buffers and memory without rights never change.
//! - A READ brings what was there, or what was posted after it unless a fence forbids.
//!   Atomics happen exactly once, also on words that many use.
//! - A node that is told of a message finds everything that was written before it.
//! - On the wire sequence numbers have no gap, and a retransmitted packet is the same. The window and
//!   the READ depth hold, and no response covers packets that have not arrived.
//! - Packets sent are lost, dropped for a counted reason, or taken: counters add up.
//! - Requests are done or fail in bounded time; then no timer runs and nothing wants to be
//!   sent. Where nothing goes wrong nothing is sent twice.
//!
//! Connection managers have a world of their own: [`connections`]. Congested switches have one, too:
//! [`incast`].
//!
//! A run stops at the first broken rule. The crate has no sockets, no threads and
//! no clock but its own, and iterates over nothing without an order.
#![forbid(unsafe_code)]

mod app;
mod area;
mod check;
mod clock;
pub mod connections;
mod end;
mod fabric;
pub mod incast;
mod message;
mod node;
mod rng;
mod run;
mod scenario;
mod trace;
mod world;

pub use check::Violation;
pub use fabric::FabricCounters;
pub use node::NodeCounters;
pub use run::{RunFailure, replay_command, run, run_seed};
pub use scenario::*;
pub use world::{Report, Seen, World};

//! Fixtures of tests: memory behind keys, a host that records, and two queue pairs with a wire between them that
//! loses packets as a test asks.
#![allow(dead_code)] // Each test module uses its own part.

mod host;
mod memory;
mod node;
mod pair;
mod recorder;
mod script;
mod shm_pair;
mod shm_path;

pub(crate) use host::XrcQueue;
pub(crate) use memory::{Buffer, TestMemory};
pub(crate) use node::{Node, PD, QKEY, Setup, datagram, recv_wr, send_wr};
pub(crate) use pair::{PacketFate, Pair, Side};
pub(crate) use script::{fetch_add, pattern, payload, successes, word};
pub(crate) use shm_pair::{ShmMode, ShmPair};
pub(crate) use shm_path::LaneFrame;

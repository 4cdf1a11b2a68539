//! Scripts of two queue pairs on one host.

mod at_once;
mod calls;
mod errors;
mod flow;
mod objects;
mod packets;
mod random;
mod unreliable;

use crate::attr::QpType;
use crate::completion::Status;
use crate::memory::AtomicOp;
use crate::testing::{Buffer, Setup, ShmMode, ShmPair, fetch_add, pattern, payload, recv_wr, send_wr, successes};
use crate::wr::{Payload, SendOp, SendWr};

fn setup() -> Setup {
    Setup::new(QpType::Rc)
}

/// A connected pair of RC queue pairs, frames of 256 bytes.
fn pair(mode: ShmMode) -> ShmPair {
    ShmPair::connected(&setup()).in_mode(mode)
}

/// Posts a receive for all of `buffer`.
fn post_recv(pair: &mut ShmPair, wr_id: u64, buffer: &Buffer) {
    pair.b.recv(recv_wr(wr_id, buffer.sgl()));
}

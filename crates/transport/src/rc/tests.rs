//! Scripts of two RC queue pairs and a wire that does what the test tells it to.

mod congestion;
mod errors;
mod flow;
mod groups;
mod loss;
mod operations;
mod piggyback;
mod placement;
mod repeats;
mod selective;
mod xrc;

use crate::attr::QpType;
use crate::completion::Status;
use crate::memory::AtomicOp;
use crate::testing::{Buffer, Pair, Setup, fetch_add, pattern, payload, recv_wr, send_wr, successes, word};
use crate::wr::{Payload, SendOp, SendWr};

/// A connected pair of RC queue pairs, MTU 256, PSNs that wrap at once.
fn pair() -> Pair {
    Pair::connected(&setup())
}

fn setup() -> Setup {
    Setup::new(QpType::Rc)
}

/// Posts a receive for all of `buffer`.
fn post_recv(pair: &mut Pair, wr_id: u64, buffer: &Buffer) {
    pair.b.recv(recv_wr(wr_id, buffer.sgl()));
}

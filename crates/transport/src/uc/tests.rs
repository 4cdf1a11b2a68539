//! Scripts of two UC queue pairs and a wire that does what the test tells it to.

mod loss;
mod packets;
mod refusals;
mod states;

use crate::attr::QpType;
use crate::completion::Status;
use crate::testing::{Buffer, Pair, Setup, pattern, payload, recv_wr, successes};
use crate::wr::Payload;

/// A connected pair of UC queue pairs, MTU 256, PSNs that wrap at once.
fn pair() -> Pair {
    Pair::connected(&setup())
}

fn setup() -> Setup {
    Setup::new(QpType::Uc)
}

fn post_recv(pair: &mut Pair, wr_id: u64, buffer: &Buffer) {
    pair.b.recv(recv_wr(wr_id, buffer.sgl()));
}

//! Scripts of two UC queue pairs and a wire that does what the test tells it to.

mod loss;
mod operations;
mod refusals;
mod states;

use crate::attr::QpType;
use crate::completion::Status;
use crate::testing::{Buffer, Pair, Setup, recv_wr};
use crate::wr::Payload;

/// A connected pair of UC queue pairs, MTU 256, PSNs that wrap at once.
fn pair() -> Pair {
    Pair::connected(&setup())
}

fn setup() -> Setup {
    Setup::new(QpType::Uc)
}

/// Bytes that differ at every position of a message.
fn pattern(len_bytes: usize, seed: usize) -> Vec<u8> {
    (0..len_bytes).map(|i| (i * 31 + i / 256 * 7 + seed) as u8).collect()
}

fn payload(buffer: &Buffer) -> Payload {
    Payload::Sgl(buffer.sgl())
}

fn successes(wr_ids: impl IntoIterator<Item = u64>) -> Vec<(u64, Status)> {
    wr_ids.into_iter().map(|id| (id, Status::Success)).collect()
}

fn post_recv(pair: &mut Pair, wr_id: u64, buffer: &Buffer) {
    pair.b.recv(recv_wr(wr_id, buffer.sgl()));
}

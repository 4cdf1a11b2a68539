//! Scripts of two RC queue pairs and a wire that does what the test tells it to.

mod congestion;
mod errors;
mod flow;
mod loss;
mod operations;
mod placement;
mod repeats;
mod selective;
mod xrc;

use crate::attr::QpType;
use crate::completion::Status;
use crate::memory::AtomicOp;
use crate::testing::{Buffer, Pair, Setup, recv_wr, send_wr};
use crate::wr::{Payload, SendOp, SendWr};

/// A connected pair of RC queue pairs, MTU 256, PSNs that wrap at once.
fn pair() -> Pair {
    Pair::connected(&setup())
}

fn setup() -> Setup {
    Setup::new(QpType::Rc)
}

/// Bytes that differ at every position of a message.
fn pattern(len_bytes: usize, seed: usize) -> Vec<u8> {
    (0..len_bytes).map(|i| (i * 31 + i / 256 * 7 + seed) as u8).collect()
}

fn payload(buffer: &Buffer) -> Payload {
    Payload::Sgl(buffer.sgl())
}

fn fetch_add(wr_id: u64, result: &Buffer, at: &Buffer, add: u64) -> SendWr {
    send_wr(wr_id, SendOp::Atomic(at.remote(0), AtomicOp::FetchAdd { add }), payload(result))
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[..8].try_into().unwrap())
}

/// Everything that went well, in this order.
fn successes(wr_ids: impl IntoIterator<Item = u64>) -> Vec<(u64, Status)> {
    wr_ids.into_iter().map(|id| (id, Status::Success)).collect()
}

/// Posts a receive for all of `buffer`.
fn post_recv(pair: &mut Pair, wr_id: u64, buffer: &Buffer) {
    pair.b.recv(recv_wr(wr_id, buffer.sgl()));
}

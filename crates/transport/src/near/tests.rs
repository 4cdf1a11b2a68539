//! Scripts of two queue pairs on one host.

mod errors;
mod flow;
mod operations;
mod random;
mod unreliable;

use crate::attr::QpType;
use crate::completion::Status;
use crate::memory::AtomicOp;
use crate::testing::{Buffer, NearPair, Setup, recv_wr, send_wr};
use crate::wr::{Payload, SendOp, SendWr};

/// How WRITEs, READs and the like are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// By the requester's own processor.
    Direct,
    /// By the peer.
    ByRequest,
    /// Likewise, and SENDs lend their bytes.
    Lending,
}

const WAYS: [Way; 3] = [Way::Direct, Way::ByRequest, Way::Lending];

fn setup() -> Setup {
    Setup::new(QpType::Rc)
}

/// A connected pair of RC queue pairs, frames of 256 bytes.
fn pair(way: Way) -> NearPair {
    take_way(NearPair::connected(&setup()), way)
}

fn take_way(pair: NearPair, way: Way) -> NearPair {
    for side in 0..2 {
        pair.shared.reachable[side].set(way == Way::Direct);
        pair.shared.lends[side].set(way == Way::Lending);
    }
    pair
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
fn post_recv(pair: &mut NearPair, wr_id: u64, buffer: &Buffer) {
    pair.b.recv(recv_wr(wr_id, buffer.sgl()));
}

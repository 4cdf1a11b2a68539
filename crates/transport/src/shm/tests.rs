//! Scripts of two queue pairs on one host.

mod errors;
mod flow;
mod operations;
mod packets;
mod random;
mod unreliable;

use crate::attr::QpType;
use crate::completion::Status;
use crate::memory::AtomicOp;
use crate::testing::{Buffer, Setup, ShmPair, fetch_add, pattern, payload, recv_wr, send_wr, successes, word};
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
fn pair(way: Way) -> ShmPair {
    take_way(ShmPair::connected(&setup()), way)
}

fn take_way(pair: ShmPair, way: Way) -> ShmPair {
    for side in 0..2 {
        pair.shared.reachable[side].set(way == Way::Direct);
        pair.shared.lends[side].set(way == Way::Lending);
    }
    pair
}

/// Posts a receive for all of `buffer`.
fn post_recv(pair: &mut ShmPair, wr_id: u64, buffer: &Buffer) {
    pair.b.recv(recv_wr(wr_id, buffer.sgl()));
}

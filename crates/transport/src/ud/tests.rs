//! Scripts of UD queue pairs.

mod receive;
mod send;

use crate::attr::QpType;
use crate::completion::Status;
use crate::testing::{Buffer, Pair, Setup, datagram, send_wr};
use crate::wr::{Payload, SendOp, SendWr};

/// Bytes before the payload in a receive buffer.
const GRH: usize = wire::Grh::LEN;

/// Two UD queue pairs that know of each other nothing but the queue key.
fn pair() -> Pair {
    Pair::connected(&setup())
}

fn setup() -> Setup {
    Setup::new(QpType::Ud)
}

fn pattern(len_bytes: usize, seed: usize) -> Vec<u8> {
    (0..len_bytes).map(|i| (i * 31 + i / 256 * 7 + seed) as u8).collect()
}

/// A send from A to B.
fn to_b(pair: &Pair, wr_id: u64, op: SendOp, payload: Payload) -> SendWr {
    SendWr { datagram: Some(datagram(pair.a.path_to(&pair.b), pair.b.qp.qpn())), ..send_wr(wr_id, op, payload) }
}

fn payload(buffer: &Buffer) -> Payload {
    Payload::Sgl(buffer.sgl())
}

fn successes(wr_ids: impl IntoIterator<Item = u64>) -> Vec<(u64, Status)> {
    wr_ids.into_iter().map(|id| (id, Status::Success)).collect()
}

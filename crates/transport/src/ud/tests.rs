//! Scripts of UD queue pairs.

mod receive;
mod send;

use crate::attr::QpType;
use crate::completion::Status;
use crate::testing::{Pair, Setup, datagram, pattern, payload, send_wr, successes};
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

/// A send from A to B.
fn to_b(pair: &Pair, wr_id: u64, op: SendOp, payload: Payload) -> SendWr {
    SendWr { datagram: Some(datagram(pair.a.path_to(&pair.b), pair.b.qp.qpn())), ..send_wr(wr_id, op, payload) }
}

//! Scripts of two RC queue pairs and a wire that does what the test tells it to.

mod blind;
mod calls;
mod congestion;
mod errors;
mod flow;
mod groups;
mod loss;
mod mtu;
mod objects;
mod piggyback;
mod placement;
mod repeats;
mod selective;
mod xrc;

use crate::attr::QpType;
use crate::completion::Status;
use crate::memory::AtomicOp;
use crate::testing::{Buffer, Pair, Setup, Side, fetch_add, pattern, payload, recv_wr, send_wr, successes, word};
use crate::wr::{Payload, SendOp, SendWr};

/// A connected pair of RC queue pairs, MTU 256, PSNs that wrap at once.
fn pair() -> Pair {
    Pair::connected(&setup())
}

fn setup() -> Setup {
    Setup::new(QpType::Rc)
}

/// Both ends agree on selective retransmission, in both directions: a message teaches the cookie, the next one
/// proves it.
fn acquaint(pair: &mut Pair) {
    for id in 0..2 {
        for side in [Side::A, Side::B] {
            let nowhere = crate::wr::RemoteAddr { addr: 0, rkey: wire::RKey(0) };
            pair.node(side).send(send_wr(id, SendOp::Write(nowhere), Payload::Inline(Default::default())));
        }
        pair.run();
    }
    assert_eq!((pair.a.host.take_sent(), pair.b.host.take_sent()), (successes(0..2), successes(0..2)));
    pair.sent.clear();
}

/// Posts a receive for all of `buffer`.
fn post_recv(pair: &mut Pair, wr_id: u64, buffer: &Buffer) {
    pair.b.recv(recv_wr(wr_id, buffer.sgl()));
}

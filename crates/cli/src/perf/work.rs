//! The work requests and the memory region of a test.

use device::{AtomicOp, Payload, SendFlags, SendOp, SendWr};

use super::credits::word_bytes;
use super::endpoint::{EndpointInfo, Endpoints, GRH_BYTES, Shape};
use super::spec::{Op, Test};

/// A send work request for the operation `op`, from the start of the local region
/// to the start of the peer's.
pub(crate) fn work_request(
    endpoints: &Endpoints,
    peer: &EndpointInfo,
    op: Op,
    size_bytes: u32,
    flags: SendFlags,
) -> SendWr {
    let remote = peer.remote(0);
    let op = match op {
        Op::Send | Op::SendInvalidate => SendOp::Send,
        Op::SendImm => SendOp::SendImm(1),
        Op::Write => SendOp::Write(remote),
        Op::WriteImm => SendOp::WriteImm(remote, 1),
        Op::Read => SendOp::Read(remote),
        Op::FetchAdd => SendOp::Atomic(remote, AtomicOp::FetchAdd { add: 1 }),
        Op::CompareSwap => SendOp::Atomic(remote, AtomicOp::CompareSwap { compare: 0, swap: 0 }),
    };
    let payload = Payload::Sgl(endpoints.sgl(0, size_bytes));
    SendWr { wr_id: 0, op, flags, payload, datagram: endpoints.datagram(peer), xrc_srq: None }
}

/// Bytes of a test's region: a half for sent data, a half for received data, and the words of credits.
fn region_bytes(test: &Test) -> usize {
    2 * half_bytes(test) + word_bytes(test)
}

/// The offset of the received half.
pub(super) fn half_bytes(test: &Test) -> usize {
    (test.size_bytes as usize + GRH_BYTES as usize + 8).next_multiple_of(4096)
}

/// The endpoints that a test needs.
pub(super) fn shape(test: &Test) -> Shape {
    Shape {
        transport: test.transport,
        qps: test.qps,
        depth: test.depth,
        region_bytes: region_bytes(test),
        path_mtu: None,
    }
}

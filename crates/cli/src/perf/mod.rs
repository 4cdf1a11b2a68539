//! `longarm perf`: one operation, measured between two processes.
//!
//! The client drives: it sends the server the test over a TCP connection, both make
//! queue pairs and connect them, the client measures, and at the end it asks the server
//! for its results.

mod client;
mod command;
mod control;
mod endpoint;
mod latency;
mod local;
mod packets;
mod server;
mod spec;
mod stats;
mod stopped;
mod stream;

pub(crate) use client::{Measurement, measure};
pub(crate) use command::{PerfArgs, ServeArgs, run, serve, server_address};
pub(crate) use control::{Control, Reply, Request};
pub(crate) use endpoint::{EndpointInfo, Endpoints, Shape, device_name, open};
pub(crate) use local::LocalServer;
pub(crate) use packets::want_packets;
pub(crate) use server::expect_finish;
pub(crate) use spec::{Mode, Op, Test, Transport};
pub(crate) use stats::{Latency, LatencySummary};

use device::{AtomicOp, Payload, SendFlags, SendOp, SendWr};

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

/// Bytes of a test's region: a half for sent data and a half for received data.
fn region_bytes(test: &Test) -> usize {
    2 * half_bytes(test)
}

/// The offset of the received half.
fn half_bytes(test: &Test) -> usize {
    (test.size_bytes as usize + endpoint::GRH_BYTES as usize + 8).next_multiple_of(4096)
}

fn shape(test: &Test) -> Shape {
    Shape {
        transport: test.transport,
        qps: test.qps,
        depth: test.depth,
        region_bytes: region_bytes(test),
        path_mtu: None,
    }
}

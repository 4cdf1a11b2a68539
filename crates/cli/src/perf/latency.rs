//! Latency: one operation at a time.
//!
//! Operations with a receiver, and WRITE, go there and back and count half. READ
//! and atomics need no answer from the peer's program: they count from post to completion.

use std::time::{Duration, Instant};

use device::SendFlags;

use super::endpoint::{EndpointInfo, Endpoints};
use super::spec::{Op, Test};
use super::stats::Latency;
use super::{half_bytes, work_request};
use crate::error::Error;

/// Rounds that are not counted, while caches and windows warm up.
const WARM_UP: u32 = 200;
/// A peer that does not answer for this long is gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// The side that measures.
pub(super) fn client(endpoints: &Endpoints, peer: &EndpointInfo, test: &Test) -> Result<Latency, Error> {
    let mut latency = Latency::default();
    for round in 0..test.rounds + WARM_UP {
        let start = Instant::now();
        if answers(test.op) {
            post(endpoints, peer, test, round)?;
            await_message(endpoints, test, round)?;
        } else {
            endpoints.qps[0].post_send([work_request(
                endpoints,
                peer,
                test.op,
                test.size_bytes,
                SendFlags::SIGNALED,
            )])?;
            endpoints.wait(&endpoints.send_cq)?;
        }
        if round >= WARM_UP {
            latency.record(start.elapsed() / if answers(test.op) { 2 } else { 1 });
        }
    }
    Ok(latency)
}

/// The side that answers.
pub(super) fn server(endpoints: &Endpoints, peer: &EndpointInfo, test: &Test) -> Result<(), Error> {
    if answers(test.op) {
        for round in 0..test.rounds + WARM_UP {
            await_message(endpoints, test, round)?;
            post(endpoints, peer, test, round)?;
        }
    }
    Ok(())
}

/// Receives that a side posts before the first message.
pub(super) fn prepare(endpoints: &Endpoints, test: &Test) -> Result<(), Error> {
    if test.op.uses_recv() {
        endpoints.post_recvs(&endpoints.qps[0], 8, half_bytes(test) as u64, test.size_bytes)?;
    }
    Ok(())
}

/// Whether the peer's program answers each message with one of the same kind.
fn answers(op: Op) -> bool {
    op.uses_recv() || op == Op::Write
}

/// Sends one message. Every 64th asks for a completion, so that the send queue empties.
fn post(endpoints: &Endpoints, peer: &EndpointInfo, test: &Test, round: u32) -> Result<(), Error> {
    let signaled = round % 64 == 63;
    let flags = if signaled { SendFlags::SIGNALED } else { SendFlags::empty() };
    let mut wr = work_request(endpoints, peer, test.op, test.size_bytes, flags);
    if test.op == Op::Write && test.size_bytes > 0 {
        endpoints.write_region(test.size_bytes as usize - 1, &[mark(round)]);
        wr.op = device::SendOp::Write(peer.remote(half_bytes(test) as u64));
    }
    endpoints.qps[0].post_send([wr])?;
    if signaled && test.op != Op::Write {
        endpoints.wait(&endpoints.send_cq)?;
    }
    Ok(())
}

fn await_message(endpoints: &Endpoints, test: &Test, round: u32) -> Result<(), Error> {
    if test.op == Op::Write {
        return await_write(endpoints, test, round);
    }
    endpoints.wait(&endpoints.recv_cq)?;
    endpoints.post_recvs(&endpoints.qps[0], 1, half_bytes(test) as u64, test.size_bytes)
}

/// Polls the last byte of the message in memory, as `ib_write_lat` does, and the
/// completion queue in between: that is what drives a device in software.
fn await_write(endpoints: &Endpoints, test: &Test, round: u32) -> Result<(), Error> {
    let last = half_bytes(test) + test.size_bytes.max(1) as usize - 1;
    let (mut byte, mut out, start) = ([0], Vec::new(), Instant::now());
    loop {
        endpoints.read_region(last, &mut byte);
        if byte[0] == mark(round) {
            return Ok(());
        }
        out.clear();
        endpoints.send_cq.poll(&mut out, 16)?;
        for completion in &out {
            endpoints.check(*completion)?;
        }
        if start.elapsed() > PATIENCE {
            return Err(Error::Silence(PATIENCE));
        }
    }
}

/// What the last byte of a round's WRITE says: never what the round before said.
fn mark(round: u32) -> u8 {
    (round % 251) as u8 + 1
}

//! Latency: one operation at a time.
//!
//! Operations with a receiver, and WRITE, make a round trip; half of it counts. READ
//! and atomics need no response from the peer's program: the time from post to completion counts.
//! A sample is one round or the mean of several. The clock is read once per sample, because a read
//! costs as much as the transfer of a cache line to the other core.

use std::time::{Duration, Instant};

use device::{Completion, SendFlags};
use provider::Cq;

use super::endpoint::{EndpointInfo, Endpoints};
use super::spec::{Op, Test};
use super::stats::Latency;
use super::work::{half_bytes, work_request};
use crate::error::Error;

/// Rounds that do not count, while caches and windows warm up.
const WARM_UP: u32 = 200;
/// A peer that does not answer for this long is gone.
const PATIENCE: Duration = Duration::from_secs(30);
/// Receives that a side posts in advance if the queue has room; `ib_send_lat` posts 512.
const RECEIVES: u32 = 64;
/// Reads of memory between two polls of a queue: a poll drives a software device.
const LOOKS: u32 = 8;

/// One side of a latency test.
struct LatencySide<'a> {
    endpoints: &'a Endpoints,
    peer: &'a EndpointInfo,
    test: &'a Test,
    completions: Vec<Completion>,
    /// Receives that are consumed and not yet posted again.
    used: u32,
}

/// Runs the measuring side. The value that `hold` returns lives from the end of the warm-up to the end.
pub(super) fn client<T>(
    endpoints: &Endpoints,
    peer: &EndpointInfo,
    test: &Test,
    hold: impl FnOnce() -> Result<T, Error>,
) -> Result<Latency, Error> {
    let mut side = LatencySide::new(endpoints, peer, test);
    let (mut latency, mut round) = (Latency::default(), 0);
    while round < WARM_UP {
        side.ask(round)?;
        round += 1;
    }
    let _held = hold()?;
    let messages_per_round = if answers(test.op) { 2 } else { 1 };
    let mut start = Instant::now();
    while round < rounds(test) {
        for _ in 0..test.together {
            side.ask(round)?;
            round += 1;
        }
        let end = Instant::now();
        latency.record((end - start) / (test.together * messages_per_round));
        start = end;
    }
    Ok(latency)
}

/// Runs the responding side.
pub(super) fn server(endpoints: &Endpoints, peer: &EndpointInfo, test: &Test) -> Result<(), Error> {
    let mut side = LatencySide::new(endpoints, peer, test);
    if answers(test.op) {
        for round in 0..rounds(test) {
            side.await_message(round)?;
            side.post(round)?;
        }
    }
    Ok(())
}

/// Receives that a side posts before the first message.
pub(super) fn prepare(endpoints: &Endpoints, test: &Test) -> Result<(), Error> {
    if test.op.uses_recv() {
        let count = RECEIVES.min(endpoints.qps[0].caps().max_recv_wr);
        endpoints.post_recvs(0, count, half_bytes(test) as u64, test.size_bytes)?;
    }
    Ok(())
}

/// All rounds of a test: the warm-up and whole samples.
fn rounds(test: &Test) -> u32 {
    WARM_UP + test.rounds.div_ceil(test.together) * test.together
}

/// Whether the peer's program responds to each message with one of the same kind.
fn answers(op: Op) -> bool {
    op.uses_recv() || op == Op::Write
}

impl<'a> LatencySide<'a> {
    fn new(endpoints: &'a Endpoints, peer: &'a EndpointInfo, test: &'a Test) -> LatencySide<'a> {
        LatencySide { endpoints, peer, test, completions: Vec::with_capacity(64), used: 0 }
    }

    /// One round of the measuring side.
    fn ask(&mut self, round: u32) -> Result<(), Error> {
        if answers(self.test.op) {
            self.post(round)?;
            return self.await_message(round);
        }
        let (test, endpoints) = (self.test, self.endpoints);
        let wr = work_request(endpoints, self.peer, test.op, test.size_bytes, SendFlags::SIGNALED);
        endpoints.qps[0].post_send([wr])?;
        self.wait(&endpoints.send_cq)
    }

    /// Sends one message. Every 64th is signaled, so that the send queue drains.
    fn post(&mut self, round: u32) -> Result<(), Error> {
        let (test, endpoints) = (self.test, self.endpoints);
        let signaled = round % 64 == 63;
        let flags = if signaled { SendFlags::SIGNALED } else { SendFlags::empty() };
        let mut wr = work_request(endpoints, self.peer, test.op, test.size_bytes, flags);
        if test.op == Op::Write && test.size_bytes > 0 {
            endpoints.write_region(test.size_bytes as usize - 1, &[mark(round)]);
            wr.op = device::SendOp::Write(self.peer.remote(half_bytes(test) as u64));
        }
        endpoints.qps[0].post_send([wr])?;
        self.post_used()?;
        if signaled && test.op != Op::Write {
            self.wait(&endpoints.send_cq)?;
        }
        Ok(())
    }

    /// Posts consumed receives again. Called after the response is sent, because the peer waits for that.
    fn post_used(&mut self) -> Result<(), Error> {
        match std::mem::take(&mut self.used) {
            0 => Ok(()),
            count => self.endpoints.post_recvs(0, count, half_bytes(self.test) as u64, self.test.size_bytes),
        }
    }

    fn await_message(&mut self, round: u32) -> Result<(), Error> {
        if self.test.op == Op::Write {
            return self.await_write(round);
        }
        self.wait(&self.endpoints.recv_cq)?;
        self.used += 1;
        Ok(())
    }

    /// Waits for one completion, which must be a success.
    fn wait(&mut self, cq: &Cq) -> Result<(), Error> {
        let mut patience = WaitLimit::default();
        self.completions.clear();
        while cq.poll(&mut self.completions, 1)? == 0 {
            patience.check()?;
        }
        self.endpoints.check(self.completions[0]).map(drop)
    }

    /// Reads the last byte of the message in memory, like `ib_write_lat`, and polls the
    /// completion queue in between.
    fn await_write(&mut self, round: u32) -> Result<(), Error> {
        let last = half_bytes(self.test) + self.test.size_bytes.max(1) as usize - 1;
        let mut patience = WaitLimit::default();
        loop {
            for _ in 0..LOOKS {
                let mut byte = [0];
                self.endpoints.read_region(last, &mut byte);
                if byte[0] == mark(round) {
                    return Ok(());
                }
            }
            self.completions.clear();
            self.endpoints.send_cq.poll(&mut self.completions, 16)?;
            for completion in &self.completions {
                self.endpoints.check(*completion)?;
            }
            patience.check()?;
        }
    }
}

/// Limits a wait, with few reads of the clock.
#[derive(Default)]
pub(crate) struct WaitLimit {
    checks: u32,
    since: Option<Instant>,
}

impl WaitLimit {
    pub(crate) fn check(&mut self) -> Result<(), Error> {
        self.checks = self.checks.wrapping_add(1);
        if self.checks.is_multiple_of(256) && self.since.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            return Err(Error::Silence(PATIENCE));
        }
        Ok(())
    }
}

/// The last byte of a round's WRITE; it differs from that of the previous round.
fn mark(round: u32) -> u8 {
    (round % 251) as u8 + 1
}

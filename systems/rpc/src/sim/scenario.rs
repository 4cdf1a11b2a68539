//! A seed decides what a run is like; a run decides its calls one by one.

use fastrand::Rng;

use crate::code::Code;
use crate::frame::METADATA;
use crate::session::SessionLimits;
use crate::sim::bytes::Filling;
use crate::sim::network::LinkFaults;
use crate::sim::ways::{SimWay, WayPlan};
use crate::sim::{chance, pick};

/// The character of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcScenario {
    pub(crate) seed: u64,
    pub(crate) way: WayPlan,
    pub(crate) limits: SessionLimits,
    pub(crate) faults: LinkFaults,
    pub(crate) clients: usize,
    pub(crate) servers: usize,
    /// Calls of each client.
    pub(crate) calls: usize,
    /// Between two calls of a client, at most.
    pub(crate) gap_ns: u64,
    pub(crate) deadlines: f64,
    pub(crate) cancels: f64,
    pub(crate) slow: f64,
    pub(crate) large: f64,
    pub(crate) drains: u32,
    pub(crate) cuts: u32,
    pub(crate) crashes: u32,
    /// The sessions of the first client have a hostile end: its server, or it.
    pub(crate) hostile: Option<HostileEnd>,
}

/// The end that breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostileEnd {
    Client,
    Server,
}

/// The fate of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CallPlan {
    pub(crate) body_bytes: usize,
    pub(crate) filling: Filling,
    pub(crate) flags: u8,
    pub(crate) timeout_ns: Option<u64>,
    pub(crate) cancel_after_ns: Option<u64>,
    /// The handler begins so long after the request has come, and answers so long after that.
    pub(crate) wait_ns: u64,
    pub(crate) work_ns: u64,
    pub(crate) code: Code,
    pub(crate) reply_bytes: usize,
    pub(crate) reply_flags: u8,
}

impl RpcScenario {
    pub(crate) fn draw(way: SimWay, seed: u64) -> RpcScenario {
        let rng = &mut Rng::with_seed(seed ^ (way as u64 + 1) << 56);
        let way = WayPlan::draw(way, rng);
        let is_calm = rng.u8(..6) == 0;
        let max_message_bytes = if rng.u8(..50) == 0 { 8 << 20 } else { pick(rng, &[300, 4_096, 20_000]) };
        let maybe = |rng: &mut Rng, value| if rng.u8(..3) == 0 && !is_calm { value } else { 0.0 };
        let some = |rng: &mut Rng, most| if rng.u8(..4) == 0 && !is_calm { rng.u32(1..=most) } else { 0 };
        RpcScenario {
            seed,
            way,
            limits: SessionLimits { slots: way.slots, max_message_bytes },
            faults: LinkFaults {
                latency_ns: (1_000, pick(rng, &[1_000, 5_000, 30_000, 200_000])),
                depth: pick(rng, &[1, 2, 16, 1_000]),
                busy: maybe(rng, 0.2),
                loss: 0.0,
                double: 0.0,
                unreliable_writes: false,
            },
            clients: rng.usize(1..=3),
            servers: rng.usize(1..=2),
            calls: rng.usize(1..=50),
            gap_ns: pick(rng, &[100, 2_000, 20_000]),
            deadlines: maybe(rng, 0.3),
            cancels: maybe(rng, 0.3),
            slow: maybe(rng, 0.4),
            large: if max_message_bytes > 1 << 20 { 0.02 } else { maybe(rng, 0.5) },
            drains: some(rng, 2),
            cuts: some(rng, 3),
            crashes: some(rng, 2),
            hostile: (!is_calm && rng.u8(..6) == 0)
                .then(|| if rng.bool() { HostileEnd::Client } else { HostileEnd::Server }),
        }
        .with_losses(rng, is_calm)
    }

    fn with_losses(mut self, rng: &mut Rng, is_calm: bool) -> RpcScenario {
        if !is_calm {
            self.faults.loss = pick(rng, &[0.0, 0.01, 0.1, 0.3]);
            self.faults.double = pick(rng, &[0.0, 0.01, 0.2]);
        }
        self
    }

    pub(crate) fn draw_call(&self, rng: &mut Rng, inline_bytes: usize) -> CallPlan {
        let delay = |rng: &mut Rng| match rng.u8(..4) {
            0 => rng.u64(..2_000_000),
            1 => rng.u64(..200_000),
            _ => rng.u64(..10_000),
        };
        CallPlan {
            body_bytes: self.draw_size(rng, inline_bytes),
            filling: pick(rng, &[Filling::Random, Filling::Random, Filling::Zeros, Filling::Headers]),
            flags: pick(rng, &[0, METADATA]),
            timeout_ns: chance(rng, self.deadlines).then(|| pick(rng, &[0, 500, 5_000, 50_000, 1_000_000, 1 << 43])),
            cancel_after_ns: chance(rng, self.cancels).then(|| delay(rng)),
            wait_ns: if chance(rng, self.slow) { delay(rng) } else { 0 },
            work_ns: if chance(rng, self.slow) { delay(rng) } else { 0 },
            code: if rng.u8(..5) == 0 { pick(rng, &Code::ALL) } else { Code::Ok },
            reply_bytes: self.draw_size(rng, inline_bytes),
            reply_flags: pick(rng, &[0, METADATA]),
        }
    }

    fn draw_size(&self, rng: &mut Rng, inline_bytes: usize) -> usize {
        let most = self.limits.max_message_bytes;
        if chance(rng, self.large) {
            return if rng.bool() { most + rng.usize(..3) - 1 } else { rng.usize(..=most) };
        }
        match rng.u8(..8) {
            0 => 0,
            1 => inline_bytes + rng.usize(..4) - 2,
            2 => rng.usize(..=2 * inline_bytes),
            _ => rng.usize(..=inline_bytes.min(64)),
        }
        .min(most)
    }
}

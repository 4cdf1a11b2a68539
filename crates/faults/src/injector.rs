//! From plan to verdicts.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use crate::plan::FaultPlan;
use crate::rng::Rng;

/// A held packet is overtaken by at most this many.
const HOLD_MAX_PACKETS: u64 = 4;
/// A held packet waits for others no longer than this.
const HOLD_TIME: Duration = Duration::from_micros(500);
/// Keeps the receive judgements apart from the packet verdicts of the same seed.
const RECV_FAMILY: u64 = 0x7265_6376;

/// What happens to one packet. A dropped packet suffers nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// It is lost.
    pub drop: bool,
    /// It arrives twice. The copy shares the rest of the verdict.
    pub duplicate: bool,
    /// One of its bits flips.
    pub corrupt: Option<Corruption>,
    /// It lets others pass.
    pub hold: Option<Hold>,
    /// It waits this long, before a hold begins. Never zero.
    pub delay: Option<Duration>,
}

impl Verdict {
    /// Nothing happens.
    pub const PASS: Verdict = Verdict { drop: false, duplicate: false, corrupt: None, hold: None, delay: None };
}

/// Which bit flips, chosen before the packet's length is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corruption(u64);

impl Corruption {
    /// The bit to flip in a packet of `len_bytes`: bit `b % 8` of byte `b / 8`.
    /// Nothing for an empty packet.
    pub fn bit(self, len_bytes: usize) -> Option<usize> {
        let bits = (len_bytes as u128) * 8;
        let bit = (u128::from(self.0) * bits) >> 64;
        (bits > 0).then_some(bit as usize)
    }

    /// Flips it.
    pub fn flip(self, packet: &mut [u8]) {
        if let Some(bit) = self.bit(packet.len()) {
            packet[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// How a packet is overtaken: it goes out once `packets` later ones of the same
/// direction have, or after `at_most`, whichever comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Later packets that pass first; at least one.
    pub packets: u32,
    /// The longest wait.
    pub at_most: Duration,
}

/// Judges packets by a plan.
///
/// Verdict number k (from zero) depends on the plan and k alone: not on time, on
/// threads or on the verdicts asked before. The same holds for receive judgements,
/// which are counted apart. Each kind of fault has its own draw, so that a plan
/// with one probability changed strikes the same packets with all the others.
#[derive(Debug)]
pub struct Injector {
    plan: FaultPlan,
    packets: AtomicU64,
    receives: AtomicU64,
}

impl Injector {
    /// A fresh one: the next verdict is number zero.
    pub fn new(plan: FaultPlan) -> Injector {
        Injector { plan, packets: AtomicU64::new(0), receives: AtomicU64::new(0) }
    }

    /// What it goes by.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// The verdict on the next packet.
    pub fn judge(&self) -> Verdict {
        self.verdict(self.packets.fetch_add(1, Relaxed))
    }

    /// Verdict number `index`, without counting.
    pub fn verdict(&self, index: u64) -> Verdict {
        let plan = &self.plan;
        let mut rng = Rng::for_index(plan.seed, index);
        // Every draw is taken, in this order, whatever the plan says.
        let drop = rng.chance(plan.loss);
        let duplicate = rng.chance(plan.dup);
        let corrupt = rng.chance(plan.corrupt);
        let bit = Corruption(rng.next_u64());
        let reorder = rng.chance(plan.reorder);
        let hold = hold(&mut rng);
        let delayed = rng.chance(plan.delayed);
        let delay = plan.delay.saturating_add(jitter(&mut rng, plan.jitter));
        if drop {
            return Verdict { drop, ..Verdict::PASS };
        }
        Verdict {
            drop,
            duplicate,
            corrupt: corrupt.then_some(bit),
            hold: reorder.then_some(hold),
            delay: (delayed && !delay.is_zero()).then_some(delay),
        }
    }

    /// Whether the responder should answer the next SEND or WRITE with immediate
    /// as if its receive queue were empty (RNR NAK), though it is not.
    pub fn refuse_recv(&self) -> bool {
        let index = self.receives.fetch_add(1, Relaxed);
        let mut rng = Rng::for_index(self.plan.seed ^ RECV_FAMILY, index);
        rng.chance(self.plan.rnr)
    }
}

fn hold(rng: &mut Rng) -> Hold {
    Hold { packets: rng.range(1..=HOLD_MAX_PACKETS) as u32, at_most: HOLD_TIME }
}

/// Between nothing and `most`. Always uses one number, unless drawn again.
fn jitter(rng: &mut Rng, most: Duration) -> Duration {
    let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(rng.range(0..=most_ns))
}

#[cfg(test)]
mod tests;

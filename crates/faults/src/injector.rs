//! The decision on each packet, by a fault plan.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use core::time::Duration;

use crate::plan::FaultPlan;
use crate::rng::Rng;

/// The largest number of packets that overtake a held packet.
const HOLD_MAX_PACKETS: u64 = 4;
/// The longest time that a held packet waits for others.
const HOLD_TIME: Duration = Duration::from_micros(500);
/// Separates the receive decisions from the packet verdicts of the same seed.
const RECV_FAMILY: u64 = 0x7265_6376;

/// The fate of one packet. A dropped packet suffers nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// The packet is lost.
    pub drop: bool,
    /// The packet arrives twice. The copy shares the rest of the verdict.
    pub duplicate: bool,
    /// One bit of the packet flips.
    pub corrupt: Option<Corruption>,
    /// Later packets overtake the packet.
    pub hold: Option<Hold>,
    /// The packet waits this long, before a hold begins. Never zero.
    pub delay: Option<Duration>,
}

impl Verdict {
    /// The packet passes unchanged.
    pub const PASS: Verdict = Verdict { drop: false, duplicate: false, corrupt: None, hold: None, delay: None };
}

/// The position of the flipped bit, chosen before the packet's length is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Corruption(u64);

impl Corruption {
    /// The bit to flip in a packet of `len_bytes`: bit `b % 8` of byte `b / 8`. `None` for an empty packet.
    pub fn bit(self, len_bytes: usize) -> Option<usize> {
        let bits = (len_bytes as u128) * 8;
        let bit = (u128::from(self.0) * bits) >> 64;
        (bits > 0).then_some(bit as usize)
    }

    /// Flips the bit in `packet`.
    pub fn flip(self, packet: &mut [u8]) {
        if let Some(bit) = self.bit(packet.len()) {
            packet[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// The end of a hold: the packet is sent after `packets` later ones of the same direction, or after
/// `at_most`, whichever comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// The number of later packets that pass first; at least one.
    pub packets: u32,
    /// The longest wait.
    pub at_most: Duration,
}

/// Decides the fate of packets by a plan.
///
/// Verdict number k (from zero) depends only on the plan and k: not on time, on threads or on earlier
/// verdicts. The same holds for receive decisions, which have their own count. Each kind of fault has its own
/// random number. If one probability of a plan changes, all other faults still hit the same packets.
#[derive(Debug)]
pub struct Injector {
    plan: FaultPlan,
    packets: AtomicU64,
    receives: AtomicU64,
}

impl Injector {
    /// A new injector: the next verdict is number zero.
    pub fn new(plan: FaultPlan) -> Injector {
        Injector { plan, packets: AtomicU64::new(0), receives: AtomicU64::new(0) }
    }

    /// The plan of this injector.
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
        // Every number is drawn, in this order, for every plan.
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

    /// True if the responder should answer the next SEND or WRITE with immediate by an RNR NAK, as if its
    /// receive queue were empty.
    pub fn refuse_recv(&self) -> bool {
        let index = self.receives.fetch_add(1, Relaxed);
        let mut rng = Rng::for_index(self.plan.seed ^ RECV_FAMILY, index);
        rng.chance(self.plan.rnr)
    }
}

fn hold(rng: &mut Rng) -> Hold {
    Hold { packets: rng.range(1..=HOLD_MAX_PACKETS) as u32, at_most: HOLD_TIME }
}

/// A random time between nothing and `most`. Uses one random number, unless that must be drawn again.
fn jitter(rng: &mut Rng, most: Duration) -> Duration {
    let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(rng.range(0..=most_ns))
}

#[cfg(test)]
mod tests;

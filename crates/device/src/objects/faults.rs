//! Injected faults, between the staging of packets and the socket.
//!
//! Every packet is judged when it is staged: lost, doubled, damaged, delayed, or held until others have passed. A packet
//! without a fault stays in its group. Packets that wait are kept here, and the engine's timers release them. While no
//! plan is set all this costs one relaxed load.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use faults::{FaultPlan, Hold, Injector, Verdict};
use parking_lot::Mutex;
use transport::Time;

use crate::objects::counters::{EngineCounter, EngineCounters};
use crate::objects::single::SinglePacket;

/// The number of packets kept at most; further ones leave without a wait.
const MAX_WAITING: usize = 1 << 14;

/// Every packet passes it when it is staged.
pub(crate) struct FaultGate {
    active: AtomicBool,
    /// The time at which the next waiting packet is due.
    earliest: AtomicU64,
    state: Mutex<FaultState>,
}

#[derive(Default)]
struct FaultState {
    injector: Option<Arc<Injector>>,
    /// Packets under a delay, by due time.
    delayed: BinaryHeap<Reverse<DelayedPacket>>,
    /// Packets that wait until others have passed.
    held: Vec<HeldPacket>,
    /// Numbers waiting packets, so that equal times keep their order.
    serial: u64,
}

struct DelayedPacket {
    at: Time,
    serial: u64,
    hold: Option<Hold>,
    packet: SinglePacket,
}

struct HeldPacket {
    left: u32,
    until: Time,
    packet: SinglePacket,
}

impl Default for FaultGate {
    fn default() -> FaultGate {
        FaultGate { active: AtomicBool::new(false), earliest: AtomicU64::new(Time::NEVER.0), state: Mutex::default() }
    }
}

impl FaultGate {
    /// Whether there is a plan.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// Sets the plan, or ends it. Packets that wait leave with the engine's next timers.
    pub(crate) fn set(&self, plan: Option<FaultPlan>) {
        let mut state = self.state.lock();
        let plan = plan.filter(|plan| !plan.is_harmless());
        self.active.store(plan.is_some(), SeqCst);
        state.injector = plan.map(|plan| Arc::new(Injector::new(plan)));
        state.release_all();
        self.publish(&state);
    }

    /// The plan in force.
    pub(crate) fn plan(&self) -> Option<FaultPlan> {
        self.state.lock().injector.as_ref().map(|injector| *injector.plan())
    }

    /// Whether the receiver must act as if no receive work request were posted.
    #[inline]
    pub(crate) fn refuse_recv(&self) -> bool {
        self.is_active() && self.state.lock().injector.as_ref().is_some_and(|injector| injector.refuse_recv())
    }

    /// Whether a frame gets lost as if it were a packet.
    #[cold]
    pub(crate) fn lose(&self, counters: &EngineCounters) -> bool {
        let verdict = self.state.lock().injector.as_ref().map(|injector| injector.judge());
        let lost = verdict.is_some_and(|verdict| verdict.drop || verdict.corrupt.is_some());
        if lost {
            counters.add(EngineCounter::FaultLost, 1);
        }
        lost
    }

    /// The time at which the next waiting packet is due.
    #[inline]
    pub(crate) fn earliest(&self) -> Time {
        Time(self.earliest.load(SeqCst))
    }

    /// Judges the next packet that is about to leave, and counts its faults.
    pub(crate) fn judge(&self, counters: &EngineCounters) -> Verdict {
        let verdict = self.state.lock().injector.as_ref().map_or(Verdict::PASS, |injector| injector.judge());
        let met = [
            (verdict.drop, EngineCounter::FaultLost),
            (verdict.corrupt.is_some(), EngineCounter::FaultCorrupted),
            (verdict.duplicate, EngineCounter::FaultDuplicated),
        ];
        met.into_iter().filter(|(met, _)| *met).for_each(|(_, counter)| counters.add(counter, 1));
        verdict
    }

    /// A packet leaves. Returns the held packets that have let enough others pass with it.
    pub(crate) fn passed(&self) -> Vec<SinglePacket> {
        if self.earliest() == Time::NEVER {
            return Vec::new();
        }
        let mut state = self.state.lock();
        let out = state.overtake();
        self.publish(&state);
        out
    }

    /// Takes a packet that is not staged as it is, `copies` times: it waits as its verdict says. Returns the packets that
    /// leave now, in order. Without a wait these are the packet itself and those that have let it pass.
    pub(crate) fn dispose(
        &self,
        packet: SinglePacket,
        copies: usize,
        verdict: &Verdict,
        now: Time,
        counters: &EngineCounters,
    ) -> Vec<SinglePacket> {
        let mut state = self.state.lock();
        let mut out = Vec::new();
        for packet in std::iter::repeat_n(packet, copies) {
            state.dispose(packet, verdict.delay, verdict.hold, now, &mut out, counters);
        }
        self.publish(&state);
        out
    }

    /// Packets whose wait is over.
    pub(crate) fn take_due(&self, now: Time) -> Vec<SinglePacket> {
        let mut state = self.state.lock();
        let mut out = Vec::new();
        state.release_due(now, &mut out);
        self.publish(&state);
        out
    }

    fn publish(&self, state: &FaultState) {
        let delayed = state.delayed.peek().map(|Reverse(waiting)| waiting.at);
        let held = state.held.iter().map(|held| held.until).min();
        let earliest = delayed.into_iter().chain(held).min().unwrap_or(Time::NEVER);
        self.earliest.store(earliest.0, SeqCst);
    }
}

impl FaultState {
    fn dispose(
        &mut self,
        packet: SinglePacket,
        delay: Option<std::time::Duration>,
        hold: Option<Hold>,
        now: Time,
        out: &mut Vec<SinglePacket>,
        counters: &EngineCounters,
    ) {
        let full = self.delayed.len() + self.held.len() >= MAX_WAITING;
        match (delay, hold) {
            _ if full => self.let_go(packet, out),
            (Some(delay), hold) => {
                counters.add(EngineCounter::FaultHeld, 1);
                self.serial += 1;
                self.delayed.push(Reverse(DelayedPacket { at: now + delay, serial: self.serial, hold, packet }));
            }
            (None, Some(hold)) => {
                counters.add(EngineCounter::FaultHeld, 1);
                self.hold(packet, hold, now);
            }
            (None, None) => self.let_go(packet, out),
        }
    }

    fn hold(&mut self, packet: SinglePacket, hold: Hold, now: Time) {
        self.held.push(HeldPacket { left: hold.packets, until: now + hold.at_most, packet });
    }

    /// Lets a packet leave, and after it the packets that have waited for it to pass.
    fn let_go(&mut self, packet: SinglePacket, out: &mut Vec<SinglePacket>) {
        out.push(packet);
        out.append(&mut self.overtake());
    }

    /// Counts a packet that overtakes the held ones. Returns those that may leave now.
    fn overtake(&mut self) -> Vec<SinglePacket> {
        for held in &mut self.held {
            held.left = held.left.saturating_sub(1);
        }
        self.held.extract_if(.., |held| held.left == 0).map(|held| held.packet).collect()
    }

    fn release_due(&mut self, now: Time, out: &mut Vec<SinglePacket>) {
        while self.delayed.peek().is_some_and(|Reverse(waiting)| waiting.at <= now) {
            let Some(Reverse(waiting)) = self.delayed.pop() else { break };
            match waiting.hold {
                Some(hold) => self.hold(waiting.packet, hold, now),
                None => self.let_go(waiting.packet, out),
            }
        }
        out.extend(self.held.extract_if(.., |held| held.until <= now).map(|held| held.packet));
    }

    fn release_all(&mut self) {
        let delayed = std::mem::take(&mut self.delayed).into_sorted_vec();
        let held = std::mem::take(&mut self.held);
        let packets = delayed.into_iter().rev().map(|Reverse(waiting)| waiting.packet);
        let packets: Vec<_> = packets.chain(held.into_iter().map(|held| held.packet)).collect();
        for packet in packets {
            self.serial += 1;
            self.delayed.push(Reverse(DelayedPacket { at: Time(0), serial: self.serial, hold: None, packet }));
        }
    }
}

impl PartialEq for DelayedPacket {
    fn eq(&self, other: &DelayedPacket) -> bool {
        (self.at, self.serial) == (other.at, other.serial)
    }
}

impl Eq for DelayedPacket {}

impl PartialOrd for DelayedPacket {
    fn partial_cmp(&self, other: &DelayedPacket) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DelayedPacket {
    fn cmp(&self, other: &DelayedPacket) -> std::cmp::Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

#[cfg(test)]
mod tests;

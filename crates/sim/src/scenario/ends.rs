//! The queue pairs of a scenario and what their applications do.

use core::time::Duration;

use faults::Rng;
use transport::{Mtu, QpCaps, QpType, Time, Tuning};
use wire::Psn;

use super::{EndSpec, Ending, Mix, Profile, RecvPolicy, Signal, Sizes, Temper};
use crate::rng::{micros, pick, time_us};

/// Memory that a queue pair's receive slots take at most, and those for results.
const SLOTS_BYTES: u32 = 4 << 20;

/// The decisions so far.
pub(super) struct ScenarioFrame {
    pub(super) service: QpType,
    pub(super) temper: Temper,
    pub(super) nodes: usize,
    pub(super) mtu: Mtu,
}

/// The settings that all queue pairs of a run share.
struct Common {
    sizes: Sizes,
    messages: u32,
    budget_bytes: u64,
    recv_wr: u32,
    shared_recv: Vec<bool>,
    staggered: bool,
}

pub(super) fn ends(rng: &mut Rng, frame: &ScenarioFrame) -> Vec<EndSpec> {
    let calm = frame.temper == Temper::Calm;
    let most = if calm { 4 } else { 8 };
    let mut places = Vec::new();
    if frame.service == QpType::Ud {
        for _ in 0..rng.range(2..=most) {
            places.push((rng.below(frame.nodes as u64) as usize, None));
        }
    } else {
        for _ in 0..rng.range(1..=most) {
            let (a, b) = two_nodes(rng, frame.nodes);
            let first = places.len();
            places.push((a, Some(first + 1)));
            places.push((b, Some(first)));
        }
    }
    let common = common(rng, frame, places.len());
    let mut ends: Vec<EndSpec> = places.into_iter().map(|(node, peer)| end(rng, frame, &common, node, peer)).collect();
    for end in 0..ends.len() {
        agree(&mut ends, end);
    }
    // Some do not know requests that carry an ACK.
    ends.iter_mut().for_each(|end| end.tuning.piggyback = rng.chance(0.8));
    ends
}

/// Usually two different ones.
fn two_nodes(rng: &mut Rng, nodes: usize) -> (usize, usize) {
    let a = rng.below(nodes as u64) as usize;
    let away = rng.range(1..=nodes as u64 - 1) as usize;
    if rng.chance(0.05) { (a, a) } else { (a, (a + away) % nodes) }
}

fn common(rng: &mut Rng, frame: &ScenarioFrame, count: usize) -> Common {
    let calm = frame.temper == Temper::Calm;
    let profiles = [Profile::Tiny, Profile::Edges, Profile::Spread, Profile::Spread, Profile::Bulk];
    let profile = pick(rng, if calm { &profiles[..3] } else { &profiles });
    let sizes = sizes(rng, frame, profile);
    let messages = match (calm, profile) {
        (true, _) => rng.range(1..=30),
        (false, Profile::Tiny) => rng.range(1..=300),
        (false, Profile::Bulk) => rng.range(1..=12),
        (false, _) => rng.range(1..=120),
    } as u32;
    let total_bytes: u64 = if profile == Profile::Bulk { 8 << 20 } else { 4 << 20 };
    let recv_wr = match calm {
        // All receives are posted before the first message comes.
        true => messages * count as u32,
        false => rng.range(1..=64) as u32,
    };
    let slot_bytes = sizes.max_send_bytes + 40;
    Common {
        sizes,
        messages,
        budget_bytes: total_bytes / count as u64,
        recv_wr: if calm { recv_wr } else { recv_wr.min(SLOTS_BYTES / slot_bytes).max(1) },
        shared_recv: (0..frame.nodes).map(|_| rng.chance(0.3)).collect(),
        staggered: !calm && rng.chance(0.3),
    }
}

fn sizes(rng: &mut Rng, frame: &ScenarioFrame, profile: Profile) -> Sizes {
    let mtu = frame.mtu.bytes();
    if frame.service == QpType::Ud {
        return Sizes { profile, max_send_bytes: mtu, max_rdma_bytes: 0 };
    }
    let (max_send_bytes, max_rdma_bytes) = match (frame.temper, profile) {
        (Temper::Calm, Profile::Spread) => (16 << 10, 256 << 10),
        (_, Profile::Tiny) => (64, 64),
        (_, Profile::Edges) => (17 * mtu, 17 * mtu),
        (_, Profile::Spread) => (pick(rng, &[16 << 10, 128 << 10]), 256 << 10),
        (_, Profile::Bulk | Profile::Fixed) => (pick(rng, &[256 << 10, 2 << 20]), 4 << 20),
    };
    Sizes { profile, max_send_bytes, max_rdma_bytes }
}

fn end(rng: &mut Rng, frame: &ScenarioFrame, common: &Common, node: usize, peer: Option<usize>) -> EndSpec {
    let calm = frame.temper == Temper::Calm;
    let fatal = frame.temper == Temper::Fatal;
    let start = if common.staggered { time_us(rng, 0..=2_000) } else { Time(0) };
    EndSpec {
        node,
        peer,
        caps: caps(rng, common),
        tuning: Tuning { max_datagram: frame.mtu, ..tuning(rng, calm) },
        shared_recv: common.shared_recv[node] && rng.chance(0.8),
        first_psn: first_psn(rng),
        timeout: if fatal { rng.range(8..=12) as u8 } else { rng.range(13..=15) as u8 },
        retry_count: if fatal { rng.range(0..=7) as u8 } else { 7 },
        rnr_retry: if fatal { rng.range(0..=7) as u8 } else { 7 },
        min_rnr_timer: if rng.chance(0.02) { 0 } else { rng.range(1..=14) as u8 },
        rd_atomic: pick(rng, &[1, 1, 2, 4, 16]),
        messages: if rng.chance(0.2) { 0 } else { common.messages },
        budget_bytes: common.budget_bytes,
        sizes: common.sizes,
        mix: Mix::all(frame.service),
        signal: signal(rng),
        inline: pick(rng, &[0.0, 0.3, 1.0]),
        fence: pick(rng, &[0.0, 0.1, 0.5]),
        rogue: if calm { 0.0 } else { pick(rng, &[0.0, 0.0, 0.05]) },
        drains: rng.chance(0.2),
        recv: recv_policy(rng, calm),
        ending: ending(rng, frame),
        rtr_at: start,
        rts_at: start + if common.staggered { micros(rng, 0..=1_000) } else { Duration::ZERO },
        in_group: rng.chance(0.5),
    }
}

fn caps(rng: &mut Rng, common: &Common) -> QpCaps {
    let slots = SLOTS_BYTES / common.sizes.max_rdma_bytes.max(1);
    QpCaps {
        max_send_wr: (rng.range(1..=48) as u32).min(slots).max(1),
        max_recv_wr: common.recv_wr,
        max_send_sge: rng.range(1..=5) as u32,
        max_recv_sge: rng.range(1..=5) as u32,
        max_inline_bytes: pick(rng, &[0, 16, 64, 300]),
    }
}

fn tuning(rng: &mut Rng, calm: bool) -> Tuning {
    let usual = Tuning::default();
    if calm || rng.chance(0.3) {
        return Tuning { window_max_bytes: 128 << 10, ..usual };
    }
    let window_initial_bytes = pick(rng, &[1, 4096, 16 << 10, 128 << 10]);
    Tuning {
        window_initial_bytes,
        window_max_bytes: window_initial_bytes.max(pick(rng, &[1, 16 << 10, 256 << 10])),
        advertise_credits: rng.chance(0.7),
        min_ack_timeout: pick(rng, &[Duration::ZERO, usual.min_ack_timeout]),
        ..usual
    }
}

/// Half of them soon wrap.
fn first_psn(rng: &mut Rng) -> Psn {
    let shm = rng.chance(0.5);
    Psn::new(match shm {
        true => 0xff_ffff - rng.below(300) as u32,
        false => rng.next_u64() as u32,
    })
}

fn signal(rng: &mut Rng) -> Signal {
    match rng.below(4) {
        0 => Signal::All,
        1 => Signal::Each,
        2 => Signal::Some(0.5),
        _ => Signal::Some(0.05),
    }
}

fn recv_policy(rng: &mut Rng, calm: bool) -> RecvPolicy {
    if calm || rng.chance(0.6) {
        return RecvPolicy::Early;
    }
    RecvPolicy::Late(micros(rng, 1..=400))
}

fn ending(rng: &mut Rng, frame: &ScenarioFrame) -> Ending {
    if frame.temper != Temper::Fatal || frame.service != QpType::Rc {
        return Ending::Plain;
    }
    match rng.below(10) {
        0..=2 => pick(rng, &Ending::REFUSED_BY_PEER),
        3 => pick(rng, &Ending::REFUSED_HERE),
        4 => Ending::Abandon,
        _ => Ending::Plain,
    }
}

/// The settings that one end takes over from the other.
fn agree(ends: &mut [EndSpec], end: usize) {
    if let Some(peer) = ends[end].peer
        && end < peer
    {
        ends[peer].rd_atomic = ends[end].rd_atomic;
    }
}

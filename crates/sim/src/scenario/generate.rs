//! From a seed to a scenario.

use core::time::Duration;

use faults::{FaultPlan, Rng};
use transport::{Mtu, QpType};

use super::{Crash, FabricSpec, FaultSpec, Partition, Pause, Scenario, Temper, ends};
use crate::rng::{Stream, micros, pick, time_us};

/// The service of a seed: each has every third.
pub(super) fn service(seed: u64) -> QpType {
    [QpType::Rc, QpType::Uc, QpType::Ud][(seed % 3) as usize]
}

pub(super) fn generate(seed: u64) -> Scenario {
    let mut rng = Stream::Scenario.rng(seed);
    let service = service(seed);
    let temper = temper(&mut rng);
    let nodes = rng.range(2..=4) as usize;
    let mtu = pick(&mut rng, &Mtu::ALL);
    let ipv6 = rng.chance(0.3);
    let fabric = fabric(&mut rng, temper);
    let faults = faults(&mut rng, temper, nodes);
    let ends = ends::ends(&mut rng, &ends::ScenarioFrame { service, temper, nodes, mtu });
    Scenario { seed, service, xrc: false, temper, ipv6, mtu, nodes, fabric, faults, ends }
}

fn temper(rng: &mut Rng) -> Temper {
    match rng.below(10) {
        0 => Temper::Calm,
        1..=6 => Temper::Stormy,
        _ => Temper::Fatal,
    }
}

fn fabric(rng: &mut Rng, temper: Temper) -> FabricSpec {
    let calm = temper == Temper::Calm;
    FabricSpec {
        latency: micros(rng, 1..=50),
        jitter: micros(rng, 0..=10),
        link_bytes_per_us: rng.range(if calm { 5000..=10_000 } else { 500..=10_000 }),
        rx_buffer_bytes: match calm {
            true => 64 << 20,
            false => pick(rng, &[24 << 10, 64 << 10, 212_992, 212_992, 1 << 20]),
        },
        rx_packet_ns: rng.range(50..=500),
        rx_bytes_per_us: rng.range(if calm { 8000..=12_000 } else { 1000..=10_000 }),
        think: micros(rng, 0..=20),
    }
}

fn faults(rng: &mut Rng, temper: Temper, nodes: usize) -> FaultSpec {
    match temper {
        Temper::Calm => FaultSpec::default(),
        Temper::Stormy => FaultSpec {
            plan: storm(rng),
            partitions: partitions(rng, nodes, 20_000),
            pauses: pauses(rng, nodes),
            crash: None,
            strikes: Vec::new(),
        },
        Temper::Fatal => FaultSpec {
            plan: FaultPlan { loss: pick(rng, &[0.0, 0.01, 0.1, 0.3]), ..storm(rng) },
            partitions: partitions(rng, nodes, 2_000_000),
            pauses: pauses(rng, nodes),
            crash: rng
                .chance(0.4)
                .then(|| Crash { node: rng.below(nodes as u64) as usize, at: time_us(rng, 0..=5_000) }),
            strikes: Vec::new(),
        },
    }
}

/// Packet faults that patience can outlast.
fn storm(rng: &mut Rng) -> FaultPlan {
    let delayed = rng.chance(0.7);
    FaultPlan {
        seed: 0,
        loss: pick(rng, &[0.0, 0.001, 0.01, 0.03, 0.05]),
        dup: pick(rng, &[0.0, 0.01, 0.05, 0.2]),
        reorder: pick(rng, &[0.0, 0.01, 0.05, 0.2]),
        corrupt: pick(rng, &[0.0, 0.001, 0.01]),
        rnr: pick(rng, &[0.0, 0.01, 0.1]),
        delay: if delayed { micros(rng, 0..=100) } else { Duration::ZERO },
        jitter: if delayed { micros(rng, 0..=500) } else { Duration::ZERO },
        delayed: pick(rng, &[0.001, 0.01, 0.1]),
    }
}

/// At most one for each pair of nodes: two in a row would add up beyond patience.
fn partitions(rng: &mut Rng, nodes: usize, longest_us: u64) -> Vec<Partition> {
    let mut partitions = Vec::new();
    for a in 0..nodes {
        for b in a + 1..nodes {
            if rng.chance(0.2) {
                let from = time_us(rng, 0..=5_000);
                let until = from + micros(rng, 100..=longest_us);
                partitions.push(Partition { a, b, from, until });
            }
        }
    }
    partitions
}

fn pauses(rng: &mut Rng, nodes: usize) -> Vec<Pause> {
    let mut pauses = Vec::new();
    for node in 0..nodes {
        if rng.chance(0.3) {
            let from = time_us(rng, 0..=5_000);
            let until = from + micros(rng, 50..=5_000);
            pauses.push(Pause { node, from, until });
        }
    }
    pauses
}

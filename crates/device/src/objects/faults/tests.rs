use std::time::Duration;

use udp::TxGroup;
use wire::Flow;

use super::*;

fn packets(count: u8) -> impl Iterator<Item = SinglePacket> {
    (0..count).map(|number| {
        let flow = Flow { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), source_port: 1 };
        let bytes = [number; 16];
        let group = TxGroup { flow, traffic_class: 0, hop_limit: 0, interface: 0, segment_bytes: 16, bytes: &bytes };
        SinglePacket::split(&group).next().unwrap()
    })
}

fn numbers(packets: &[SinglePacket]) -> Vec<u8> {
    packets.iter().map(|packet| packet.bytes[0]).collect()
}

/// Judges packets as staging does; returns those that leave, in order.
fn pass(
    gate: &FaultGate,
    packets: impl Iterator<Item = SinglePacket>,
    now: Time,
    counters: &EngineCounters,
) -> Vec<SinglePacket> {
    let mut out = Vec::new();
    for mut packet in packets {
        let verdict = gate.judge(counters);
        if let Some(corruption) = verdict.corrupt {
            corruption.flip(&mut packet.bytes);
        }
        let copies = if verdict.drop { 0 } else { 1 + usize::from(verdict.duplicate) };
        if verdict.delay.is_some() || verdict.hold.is_some() {
            out.append(&mut gate.dispose(packet, copies, &verdict, now, counters));
            continue;
        }
        for _ in 0..copies {
            out.push(packet.clone());
            out.append(&mut gate.passed());
        }
    }
    out
}

fn gate(plan: FaultPlan) -> (FaultGate, EngineCounters) {
    let gate = FaultGate::default();
    gate.set(Some(plan));
    (gate, EngineCounters::new().unwrap())
}

#[test]
fn without_a_plan_there_is_no_gate() {
    let gate = FaultGate::default();
    gate.set(Some(FaultPlan::default()));
    assert!(!gate.is_active(), "a harmless plan is none");
    assert!(!gate.refuse_recv());
    assert_eq!(gate.earliest(), Time::NEVER);
}

#[test]
fn all_lost_means_none_leaves() {
    let (gate, counters) = gate(FaultPlan { loss: 1.0, ..FaultPlan::default() });
    assert!(pass(&gate, packets(50), Time(0), &counters).is_empty());
    assert_eq!(counters.snapshot().get("fault_lost"), 50);
}

#[test]
fn doubled_packets_leave_twice() {
    let (gate, counters) = gate(FaultPlan { dup: 1.0, ..FaultPlan::default() });
    assert_eq!(numbers(&pass(&gate, packets(3), Time(0), &counters)), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn delayed_packets_wait_and_keep_their_order() {
    let delay = Duration::from_micros(5);
    let (gate, counters) = gate(FaultPlan { delay, ..FaultPlan::default() });
    assert!(pass(&gate, packets(3), Time(1_000), &counters).is_empty());
    assert_eq!(gate.earliest(), Time(6_000));
    assert!(gate.take_due(Time(5_999)).is_empty());
    assert_eq!(numbers(&gate.take_due(Time(6_000))), [0, 1, 2]);
    assert_eq!(gate.earliest(), Time::NEVER);
}

#[test]
fn held_packets_are_overtaken_but_come() {
    let (gate, counters) = gate(FaultPlan { seed: 3, reorder: 0.3, ..FaultPlan::default() });
    let mut out = pass(&gate, packets(200), Time(0), &counters);
    let in_time = numbers(&out);
    assert!(!in_time.is_sorted(), "something was overtaken");
    let last = gate.earliest();
    if last != Time::NEVER {
        out.extend(gate.take_due(last + Duration::from_secs(1)));
    }
    let mut all = numbers(&out);
    all.sort_unstable();
    assert_eq!(all, (0..200).collect::<Vec<_>>());
}

#[test]
fn one_bit_of_a_damaged_packet_differs() {
    let (gate, counters) = gate(FaultPlan { corrupt: 1.0, ..FaultPlan::default() });
    let before: Vec<_> = packets(20).collect();
    let after = pass(&gate, packets(20), Time(0), &counters);
    for (before, after) in before.iter().zip(&after) {
        let bits: u32 = before.bytes.iter().zip(&after.bytes).map(|(a, b)| (a ^ b).count_ones()).sum();
        assert_eq!(bits, 1);
    }
}

#[test]
fn the_end_of_the_plan_releases_all_packets() {
    let delay = Duration::from_secs(60);
    let (gate, counters) = gate(FaultPlan { delay, ..FaultPlan::default() });
    pass(&gate, packets(4), Time(5), &counters);
    gate.set(None);
    assert!(!gate.is_active());
    assert_eq!(numbers(&gate.take_due(Time(5))), [0, 1, 2, 3]);
}

#[test]
fn receivers_are_refused_by_the_plan() {
    let (gate, _) = gate(FaultPlan { rnr: 0.5, ..FaultPlan::default() });
    let refused = (0..1000).filter(|_| gate.refuse_recv()).count();
    assert!((300..700).contains(&refused), "{refused}");
}

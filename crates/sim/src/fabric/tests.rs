use super::*;

fn fabric(plan: FaultPlan, partitions: Vec<Partition>) -> Fabric {
    let mut scenario = Scenario::generate(3);
    scenario.nodes = 2;
    scenario.faults.plan = plan;
    scenario.faults.partitions = partitions;
    scenario.fabric.latency = Duration::from_micros(10);
    scenario.fabric.jitter = Duration::from_micros(5);
    Fabric::new(&scenario)
}

fn flight(number: u8) -> Flight {
    Flight {
        from: 0,
        to: 1,
        flow: Flow { source: [10, 0, 0, 1].into(), destination: [10, 0, 0, 2].into(), source_port: 0xc000 },
        traffic_class: 0,
        hop_limit: 64,
        bytes: vec![number; 20],
    }
}

/// Sends packets 0..count, one each microsecond, and tells which arrive in which order.
fn arrivals(fabric: &mut Fabric, count: u8) -> Vec<(Time, u8)> {
    let mut clock = crate::clock::Clock::default();
    for number in 0..count {
        let (_, next) = fabric.send(Time(u64::from(number) * 1000), flight(number));
        next.into_iter().for_each(|(at, next)| clock.schedule(at, next));
    }
    let mut order = Vec::new();
    while let Some(next) = clock.advance() {
        let flight = match next {
            Next::Arrive(flight) => Some(flight),
            Next::Release { link, ticket } => fabric.release(link, ticket),
        };
        order.extend(flight.map(|flight| (clock.now(), flight.bytes[0])));
    }
    assert!(fabric.is_empty());
    order
}

#[test]
fn a_quiet_fabric_keeps_order_and_adds_latency() {
    let order = arrivals(&mut fabric(FaultPlan::default(), Vec::new()), 100);
    assert!(order.iter().map(|(_, n)| *n).eq(0..100));
    for (at, number) in order {
        let sent = u64::from(number) * 1000;
        assert!((sent + 10_000..=sent + 16_000).contains(&at.0), "{number}: {at:?}");
    }
}

#[test]
fn faults_happen_and_are_counted() {
    let plan = FaultPlan { loss: 0.2, dup: 0.2, reorder: 0.2, corrupt: 0.2, ..FaultPlan::default() };
    let mut fabric = fabric(plan, Vec::new());
    let order = arrivals(&mut fabric, 200);
    let counters = *fabric.counters();
    assert_eq!(order.len() as u64, counters.sent + counters.duplicated - counters.lost);
    assert!(counters.lost > 10 && counters.duplicated > 10 && counters.corrupted > 10, "{counters:?}");
    assert!(order.windows(2).any(|w| w[0].1 > w[1].1), "nothing was overtaken");
}

#[test]
fn a_partition_cuts_for_a_while() {
    let cut = Partition { a: 1, b: 0, from: Time(20_000), until: Time(30_000) };
    let mut fabric = fabric(FaultPlan::default(), vec![cut]);
    let order = arrivals(&mut fabric, 50);
    assert!(order.iter().all(|(_, n)| !(20..30).contains(n)));
    assert_eq!(order.len(), 40);
    assert_eq!(fabric.counters().partitioned, 10);
}

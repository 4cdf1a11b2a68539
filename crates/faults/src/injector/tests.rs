use super::*;

const PACKETS: u64 = 100_000;

fn injector(text: &str) -> Injector {
    Injector::new(text.parse().expect(text))
}

fn verdicts(text: &str, count: u64) -> Vec<Verdict> {
    let injector = injector(text);
    (0..count).map(|_| injector.judge()).collect()
}

/// True within six standard deviations around the mean of `PACKETS` draws.
fn likely(probability: f64, struck: usize) -> bool {
    let mean = PACKETS as f64 * probability;
    let deviation = (mean * (1.0 - probability)).sqrt();
    (struck as f64 - mean).abs() <= 6.0 * deviation
}

#[test]
fn every_fault_strikes_as_often_as_planned() {
    let all = verdicts("seed=1,dup=0.01,reorder=0.02,corrupt=0.005,delay=1us,delayed=0.25", PACKETS);
    let count = |test: fn(&Verdict) -> bool| all.iter().filter(|v| test(v)).count();
    assert!(likely(0.01, count(|v| v.duplicate)));
    assert!(likely(0.02, count(|v| v.hold.is_some())));
    assert!(likely(0.005, count(|v| v.corrupt.is_some())));
    assert!(likely(0.25, count(|v| v.delay.is_some())));
    assert_eq!(count(|v| v.drop), 0);
}

#[test]
fn loss_and_rnr_strike_as_often_as_planned() {
    for seed in 0..8 {
        let injector = injector(&format!("seed={seed},loss=0.05,rnr=0.1"));
        let lost = (0..PACKETS).filter(|_| injector.judge().drop).count();
        let refused = (0..PACKETS).filter(|_| injector.refuse_recv()).count();
        assert!(likely(0.05, lost), "seed {seed}: {lost} lost");
        assert!(likely(0.1, refused), "seed {seed}: {refused} refused");
    }
}

#[test]
fn losses_come_neither_in_pairs_nor_at_intervals() {
    let all = verdicts("seed=3,loss=0.3", PACKETS);
    for gap in [1, 2, 3, 7, 64] {
        let both = all.windows(gap + 1).filter(|w| w[0].drop && w[gap].drop);
        assert!(likely(0.09, both.count()), "gap {gap}");
    }
}

#[test]
fn a_seed_replays_and_another_differs() {
    let text = "seed=5,loss=0.1,dup=0.1,reorder=0.1,corrupt=0.1,delay=3us,jitter=2us";
    assert_eq!(verdicts(text, 1000), verdicts(text, 1000));
    let other = text.replace("seed=5", "seed=6");
    assert_ne!(verdicts(text, 1000), verdicts(&other, 1000));
}

#[test]
fn a_verdict_depends_on_plan_and_number_alone() {
    let text = "seed=5,loss=0.1,dup=0.1,reorder=0.1,corrupt=0.1,rnr=0.5,jitter=2us";
    let plain = verdicts(text, 500);
    let injector = injector(text);
    for (index, expected) in plain.iter().enumerate().rev() {
        assert_eq!(injector.verdict(index as u64), *expected);
    }
    for expected in plain {
        injector.refuse_recv();
        assert_eq!(injector.judge(), expected);
    }
}

#[test]
fn one_probability_changed_leaves_the_others_alone() {
    let before = verdicts("seed=9,dup=0.1,reorder=0.1,corrupt=0.1,jitter=9us", 5000);
    let after = verdicts("seed=9,dup=0.1,reorder=0.1,corrupt=0.1,jitter=9us,loss=0.2", 5000);
    let kept = before.iter().zip(&after).filter(|(_, after)| !after.drop);
    assert!(kept.clone().count() > 3000);
    assert!(kept.into_iter().all(|(before, after)| before == after));
}

#[test]
fn judged_by_several_threads_each_number_falls_once() {
    let text = "seed=4,loss=0.5";
    let shared = injector(text);
    let lost = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| (0..2500).filter(|_| shared.judge().drop).count())).collect();
        let counts = threads.into_iter().map(|t| t.join().expect("no panic"));
        counts.sum::<usize>()
    });
    let alone = verdicts(text, 10_000).iter().filter(|v| v.drop).count();
    assert_eq!(lost, alone);
}

#[test]
fn a_dropped_packet_suffers_nothing_else() {
    let all = verdicts("loss=1,dup=1,reorder=1,corrupt=1,delay=1s", 100);
    let dropped = Verdict { drop: true, ..Verdict::PASS };
    assert!(all.iter().all(|v| *v == dropped));
}

#[test]
fn nothing_planned_means_nothing_happens() {
    let injector = Injector::new(FaultPlan::default());
    assert!((0..1000).all(|_| injector.judge() == Verdict::PASS && !injector.refuse_recv()));
}

#[test]
fn delays_lie_between_delay_and_delay_plus_jitter() {
    let all = verdicts("delay=10us,jitter=5us", 5000);
    let waits: Vec<Duration> = all.iter().filter_map(|v| v.delay).collect();
    assert_eq!(waits.len(), 5000);
    let us = Duration::from_micros;
    assert!(waits.iter().all(|w| (us(10)..=us(15)).contains(w)));
    assert!(waits.iter().any(|w| *w < us(11)) && waits.iter().any(|w| *w > us(14)));
}

#[test]
fn delays_beyond_all_measure_saturate() {
    let plan = FaultPlan { delay: Duration::MAX, jitter: Duration::MAX, ..FaultPlan::default() };
    assert_eq!(Injector::new(plan).judge().delay, Some(Duration::MAX));
    assert!(!plan.is_harmless());
}

#[test]
fn held_packets_let_one_to_four_pass() {
    let all = verdicts("reorder=1", 1000);
    let mut seen = [0; 5];
    for hold in all.iter().map(|v| v.hold.expect("reorder=1")) {
        seen[hold.packets as usize] += 1;
        assert!(!hold.at_most.is_zero());
    }
    assert!(seen[0] == 0 && seen[1..].iter().all(|n| *n > 150), "{seen:?}");
}

#[test]
fn exactly_one_bit_flips_anywhere() {
    let mut bytes_hit = [false; 9];
    let mut bits_hit = 0u8;
    for verdict in verdicts("corrupt=1", 2000) {
        let mut packet = [0u8; 9];
        verdict.corrupt.expect("corrupt=1").flip(&mut packet);
        let ones: u32 = packet.iter().map(|b| b.count_ones()).sum();
        assert_eq!(ones, 1);
        for (hit, byte) in bytes_hit.iter_mut().zip(packet) {
            *hit |= byte != 0;
            bits_hit |= byte;
        }
    }
    assert_eq!((bytes_hit, bits_hit), ([true; 9], 0xff));
}

#[test]
fn an_empty_packet_has_no_bit_to_flip() {
    assert_eq!(Corruption(u64::MAX).bit(0), None);
    Corruption(u64::MAX).flip(&mut []);
    assert_eq!(Corruption(u64::MAX).bit(1), Some(7));
    assert_eq!(Corruption(0).bit(1), Some(0));
}

use super::*;
use crate::Rng;

fn parse(text: &str) -> Result<FaultPlan, PlanError> {
    text.parse()
}

#[test]
fn a_full_plan_is_read() {
    let text = "seed=7,loss=0.05,dup=0.01,reorder=0.02,delay=100us,jitter=1.5ms,delayed=0.5,\
                corrupt=0.001,rnr=1";
    assert_eq!(
        parse(text),
        Ok(FaultPlan {
            seed: 7,
            loss: 0.05,
            dup: 0.01,
            reorder: 0.02,
            corrupt: 0.001,
            rnr: 1.0,
            delay: Duration::from_micros(100),
            jitter: Duration::from_micros(1500),
            delayed: 0.5,
        })
    );
}

#[test]
fn blanks_are_forgiven_and_nothing_is_a_plan_too() {
    assert_eq!(parse("  "), Ok(FaultPlan::default()));
    assert_eq!(parse(" loss = 0.5 , seed = 0x10 "), parse("seed=16,loss=0.5"));
    assert_eq!(parse("delay=10 us"), parse("delay=10us"));
}

#[test]
fn times_are_exact() {
    for (text, ns) in [
        ("0ns", 0),
        ("250ns", 250),
        ("1us", 1_000),
        ("1.5ms", 1_500_000),
        ("0.000000001s", 1),
        ("2s", 2_000_000_000),
        ("1.9999ns", 1),
        ("18446744073709551615ns", u64::MAX),
    ] {
        let plan = parse(&format!("delay={text}")).expect(text);
        assert_eq!(plan.delay, Duration::from_nanos(ns), "{text}");
    }
}

#[test]
fn refusals_name_the_key_and_the_value() {
    for (text, expected) in [
        ("loss", "`loss` is not a fault"),
        ("", ""),
        ("loss=0.1,", "`` is not a fault"),
        ("lost=0.1", "`lost` is not a fault: known are seed, loss"),
        ("loss=0.1,loss=0.1", "`loss` is given twice"),
        ("loss=1.5", "`loss=1.5`: a probability"),
        ("dup=-0.1", "`dup=-0.1`: a probability"),
        ("rnr=often", "`rnr=often`: a probability"),
        ("corrupt=NaN", "`corrupt=NaN`: a probability"),
        ("reorder=inf", "`reorder=inf`: a probability"),
        ("delayed=", "`delayed=`: a probability"),
        ("delay=100", "`delay=100`: a time"),
        ("delay=us", "`delay=us`: a time"),
        ("delay=-1us", "`delay=-1us`: a time"),
        ("delay=1e3us", "`delay=1e3us`: a time"),
        ("delay=1.us", "`delay=1.us`: a time"),
        ("delay=.5us", "`delay=.5us`: a time"),
        ("delay=1h", "`delay=1h`: a time"),
        ("jitter=99999999999999999999s", "`jitter=99999999999999999999s`: a time"),
        ("jitter=18446744074s", "`jitter=18446744074s`: a time"),
        ("seed=-1", "`seed=-1`: a seed"),
        ("seed=0xg", "`seed=0xg`: a seed"),
        ("seed=18446744073709551616", "`seed=18446744073709551616`: a seed"),
    ] {
        let said = parse(text).map_or_else(|e| e.to_string(), |_| String::new());
        assert!(said.starts_with(expected), "{text}: {said}");
        assert_eq!(said.is_empty(), expected.is_empty(), "{text}: {said}");
    }
}

#[test]
fn a_printed_plan_parses_back() {
    let mut rng = Rng::new(11);
    for _ in 0..2000 {
        let plan = any_plan(&mut rng);
        assert_eq!(parse(&plan.to_string()), Ok(plan), "{plan}");
    }
    assert_eq!(FaultPlan::default().to_string(), "seed=0");
    assert_eq!(parse("delay=90000us,seed=3,loss=0.50").map(|p| p.to_string()), Ok("seed=3,loss=0.5,delay=90ms".into()));
}

fn any_plan(rng: &mut Rng) -> FaultPlan {
    let probability = |rng: &mut Rng| match rng.below(3) {
        0 => 0.0,
        1 => 1.0,
        _ => rng.below(1 << 40) as f64 / (1u64 << 40) as f64,
    };
    FaultPlan {
        seed: rng.next_u64(),
        loss: probability(rng),
        dup: probability(rng),
        reorder: probability(rng),
        corrupt: probability(rng),
        rnr: probability(rng),
        delayed: probability(rng),
        delay: Duration::from_nanos(rng.next_u64() >> rng.below(64)),
        jitter: Duration::from_micros(rng.below(5000)),
    }
}

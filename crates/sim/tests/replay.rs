//! A seed is a run: the same one again, to the last packet.

use longarm_sim::{QpType, Scenario, World, replay_command, run, seeds};

#[test]
fn the_same_seed_does_the_same() {
    for service in [QpType::Rc, QpType::Uc, QpType::Ud] {
        for seed in seeds(service).skip(500).take(3) {
            let report = |verbose| run(&mut World::new(Scenario::generate(seed), verbose)).expect("it passes");
            assert_eq!(report(false), report(false), "{service:?} {seed}");
            assert_eq!(report(false), report(true), "watching changes nothing: {service:?} {seed}");
        }
    }
}

#[test]
fn another_seed_does_something_else() {
    let hash = |seed| run(&mut World::new(Scenario::generate(seed), false)).expect("it passes").hash;
    let hashes: Vec<u64> = seeds(QpType::Rc).take(5).map(hash).collect();
    for (i, one) in hashes.iter().enumerate() {
        assert!(hashes[i + 1..].iter().all(|other| one != other));
    }
}

#[test]
fn one_command_replays() {
    assert_eq!(replay_command(7), "cargo run -p longarm-sim -- --seed 7 --trace");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_longarm-sim"))
        .args(["--seed", "3", "--trace"])
        .output()
        .expect("the program runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("seed 3: Rc"), "the scenario comes first");
    assert!(text.contains("RC_WRITE_FIRST psn 0x"), "then packets");
    assert!(text.trim_end().lines().last().is_some_and(|line| line.starts_with("passed: ")), "then the verdict");
}

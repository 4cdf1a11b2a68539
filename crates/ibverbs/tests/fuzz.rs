//! Random verbs with random arguments on live objects: see `c/fuzz.c`.
//!
//! `LONGARM_FUZZ_SEEDS=1000..5000` tries these seeds instead of the usual ones.

#[path = "support/mod.rs"]
mod support;

use support::ProgramDir;

const VARIABLE: &str = "LONGARM_FUZZ_SEEDS";
const USUAL: (u64, u64) = (0, 200);

#[test]
fn random_calls_are_answered_and_everything_can_be_destroyed() {
    let (from, to) = std::env::var(VARIABLE).map_or(USUAL, |text| seeds(&text));
    let place = ProgramDir::new("fuzz");
    let program = place.compile("fuzz");
    let output = place.command(&program).args([from.to_string(), to.to_string()]).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().rev().find_map(|line| line.strip_prefix("seed ")?.parse::<u64>().ok());
    let seed = last.expect("at least one seed was begun");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && !complaints.contains("panicked"),
        "seed {seed} ended with {}: {complaints}\nagain: {VARIABLE}={seed}..{} cargo test -p longarm-ibverbs --test fuzz",
        output.status,
        seed + 1,
    );
    assert_eq!(seed + 1, to, "all seeds were tried");
}

/// `FROM..TO`.
fn seeds(text: &str) -> (u64, u64) {
    let ends = text.split_once("..").and_then(|(from, to)| Some((from.trim().parse().ok()?, to.trim().parse().ok()?)));
    ends.filter(|(from, to)| from < to).unwrap_or_else(|| panic!("{VARIABLE}={text} is not FROM..TO"))
}

#[test]
fn ranges_of_seeds_are_understood() {
    assert_eq!(seeds("5..9"), (5, 9));
    for broken in ["", "5", "9..5", "5..5", "a..b"] {
        assert!(std::panic::catch_unwind(|| seeds(broken)).is_err(), "{broken:?}");
    }
}

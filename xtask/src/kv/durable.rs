//! K10, K12 and K13: failover, changes on disk beside Redis with its AOF, and the restart from disk.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::options::KvCompareOptions;
use super::plan::{SYNC_DEPTHS, SYNC_RULES};
use super::results::KvResults;
use crate::run::root;

const RESTART: &str = "restart";
const FAILOVER: &str = "failover";
/// The times of `failover.py`, in seconds, and the values that it missed.
const LONGEST: &str = "longest_s";
const MEDIAN: &str = "median_s";
const LOST: &str = "lost";
/// The term of the members, in seconds.
const TERM: &str = "0.5";
const OURS: [&str; 2] = ["longarm cluster", "longarm rpc"];
const REDIS: &str = "redis unix";

/// Measures the restart and the failover, once. The commands of the plan have measured the rest.
pub(super) fn measure(results: &mut KvResults, program: &Path, options: &KvCompareOptions) {
    let is_quick = options.seconds < 1.0;
    let (keys, kills) = if is_quick { ("20000", "1") } else { ("1000000", "6") };
    let program = program.display().to_string();
    match run(&["sh", "systems/resp/benches/restart.sh", &program, keys]) {
        Ok(text) => restarts(&text).for_each(|(system, ms)| results.note(RESTART, system, "ms", ms)),
        Err(why) => drop(results.failures.insert(format!("restart.sh: {why}"))),
    }
    match run(&["python3", "systems/resp/benches/failover.py", &program, TERM, kills]) {
        Ok(text) => {
            failovers(&text).into_iter().for_each(|(field, figure)| results.note(FAILOVER, "longarm", field, figure))
        }
        Err(why) => drop(results.failures.insert(format!("failover.py: {why}"))),
    }
}

/// Runs a script in a network namespace, where its ports are free.
fn run(command: &[&str]) -> Result<String, String> {
    let mut process = Command::new("unshare");
    process.args(["-rn", "sh", "-c", "ip link set lo up && exec timeout 600 \"$@\"", "sh"]).args(command);
    let output = process.current_dir(root()).stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")),
    }
}

/// Systems and milliseconds in the lines of `restart.sh`: `redis, again: 3900 ms, 632000 keys`.
fn restarts(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.lines().filter_map(|line| {
        let (system, rest) = line.split_once(", again: ")?;
        Some((system, rest.split_once(" ms")?.0.parse().ok()?))
    })
}

/// The figures in the lines of `failover.py`: `term 0.5 s: 0.45 to 0.52 s, median 0.48 s, 6 kills` and `lost: 0`.
fn failovers(text: &str) -> Vec<(&'static str, f64)> {
    let between = |before: &str, after: &str| -> Option<f64> {
        text.split_once(before)?.1.split_once(after)?.0.trim().parse().ok()
    };
    let found =
        [(LONGEST, between(" to ", " s,")), (MEDIAN, between("median ", " s")), (LOST, between("lost: ", "\n"))];
    found.into_iter().filter_map(|(field, figure)| Some((field, figure?))).collect()
}

/// The section of the page.
pub(super) fn section(results: &KvResults) -> String {
    let mut text = String::from(
        "\n## Disks and failover (K10, K12, K13)\n\nYCSB-A of one client with the same rule for syncs on one disk, thousands of operations a second. The better \
         of GETs by READ\nand by RPC counts. A restart is from 0.8 GB, by `restart.sh`. The failover is the longest of six kills of a primary, by `failover.py`.\n`--quick` has 13 MB and one kill.\n\n\
         | target | what | longarm-kv | Redis | figure | goal | met |\n|---|---|---:|---:|---:|---:|---|\n",
    );
    let thousands = |rate: f64| format!("{:.0}", rate / 1e3);
    for (rule, depth) in SYNC_RULES.into_iter().flat_map(|rule| SYNC_DEPTHS.map(|depth| (rule, depth))) {
        let rate = |system| results.rate_at(rule, system, "a", depth);
        let ours = OURS.into_iter().filter_map(rate).max_by(f64::total_cmp);
        let what = format!("`--fsync {rule}`, depth {depth}");
        row(&mut text, ("K12", &what, "≥ 1"), (ours, rate(REDIS)), thousands, |ours, redis| {
            (ours / redis, ours >= redis)
        });
    }
    let restart = |system| results.median(RESTART, system, "", "ms");
    let seconds = |ms: f64| format!("{:.2} s", ms / 1e3);
    let faster = |ours: f64, redis: f64| (redis / ours, redis >= 2.0 * ours);
    row(&mut text, ("K13", "restart", "≥ 2"), (restart("longarm"), restart("redis")), seconds, faster);
    let failover = |field| results.median(FAILOVER, "longarm", "", field);
    if let (Some(longest), Some(median), Some(lost)) = (failover(LONGEST), failover(MEDIAN), failover(LOST)) {
        let met = if longest <= 1.0 && lost == 0.0 { "yes" } else { "**no**" };
        let _ = writeln!(
            text,
            "| K10 | failover, terms of {TERM} s; {lost} answers lost | {longest:.2} s | median {median:.2} s | – | ≤ 1 s | {met} |"
        );
    } else {
        text += "| K10 | failover | – | – | – | ≤ 1 s | not measured |\n";
    }
    text
}

/// A row that compares: its target, name and goal; both figures; how a figure is shown; the ratio, and whether the goal is met.
fn row(
    text: &mut String,
    (id, what, goal): (&str, &str, &str),
    (ours, redis): (Option<f64>, Option<f64>),
    show: impl Fn(f64) -> String,
    compare: impl Fn(f64, f64) -> (f64, bool),
) {
    let shown = |figure: Option<f64>| figure.map_or_else(|| "–".into(), &show);
    let compared = ours.zip(redis).map(|(ours, redis)| compare(ours, redis));
    let met = compared.map_or("not measured", |(_, met)| if met { "yes" } else { "**no**" });
    let ratio = compared.map_or_else(|| "–".into(), |(ratio, _)| format!("{ratio:.2}"));
    let (ours, redis) = (shown(ours), shown(redis));
    // A string takes all text.
    let _ = writeln!(text, "| {id} | {what} | {ours} | {redis} | {ratio} | {goal} | {met} |");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_scripts_become_rows() {
        let mut results = KvResults::default();
        let restarted =
            "redis, empty: 30 ms, 0 keys\nredis, again: 4000 ms, 632 keys\nlongarm, again: 1900 ms, 632 keys\n";
        restarts(restarted).for_each(|(system, ms)| results.note(RESTART, system, "ms", ms));
        let killed = "term 0.5 s: 0.45 to 0.52 s, median 0.48 s, 6 kills\nlost: 0\n";
        failovers(killed).into_iter().for_each(|(field, figure)| results.note(FAILOVER, "longarm", field, figure));
        for (system, rate) in [(OURS[0], 27e3), (OURS[1], 24e3), (REDIS, 13.5e3)] {
            let line = serde_json::json!({"system": system, "workload": "a", "depth": 1, "ops_per_second": rate});
            results.take("always", &line);
        }
        let text = section(&results);
        for expected in [
            "| K12 | `--fsync always`, depth 1 | 27 | 14 | 2.00 | ≥ 1 | yes |",
            "| K12 | `--fsync always`, depth 16 | – | – | – | ≥ 1 | not measured |",
            "| K13 | restart | 1.90 s | 4.00 s | 2.11 | ≥ 2 | yes |",
            "| K10 | failover, terms of 0.5 s; 0 answers lost | 0.52 s | median 0.48 s | – | ≤ 1 s | yes |",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        let lost = KvResults::default();
        assert!(section(&lost).contains("| K10 | failover | – | – | – | ≤ 1 s | not measured |"));
    }
}

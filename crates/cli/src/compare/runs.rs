//! Runs at different times: the range of the ratios.
//!
//! One run shows the machine at one moment. A file keeps the ratios of all runs, a line of JSON for each,
//! and the page shows their minimum, median and maximum.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::document;
use super::goals::GoalRow;
use super::page::machine;
use super::results::Results;
use super::stats::median;
use crate::error::Error;

/// One run.
#[derive(Serialize, Deserialize, Debug, PartialEq)]
struct RecordedRun {
    /// Seconds since 1970.
    time: u64,
    machine: String,
    ratios: Vec<Ratio>,
}

/// The result of one row of a run.
#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct Ratio {
    target: String,
    what: String,
    ours: String,
    beside: String,
    ratio: f64,
    goal: String,
    reached: Option<bool>,
}

impl Ratio {
    fn of(row: &GoalRow, results: &Results) -> Option<Ratio> {
        let (ours, theirs) = (results.summary(&row.ours)?.median, results.summary(&row.theirs?)?.median);
        Some(Ratio {
            target: row.id.into(),
            what: row.ours.what(),
            ours: row.ours.contender_name(),
            beside: row.theirs?.contender_name(),
            ratio: ours / theirs,
            goal: row.goal.words(&row.ours),
            reached: row.goal.is_reached(Some(ours), Some(theirs)),
        })
    }

    fn is_same_row(&self, other: &Ratio) -> bool {
        let row = |ratio: &Ratio| [&ratio.target, &ratio.what, &ratio.ours, &ratio.beside].map(String::clone);
        row(self) == row(other)
    }
}

/// Adds a run to the file, and writes the range over all its runs into the page beside it.
///
/// # Errors
/// If a file cannot be read or written, or has other lines.
pub(super) fn record(file: &Path, rows: &[GoalRow], results: &Results) -> Result<(), Error> {
    let failed = |error| Error::File(file.display().to_string(), error);
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let ratios = rows.iter().filter_map(|row| Ratio::of(row, results)).collect();
    let line =
        serde_json::to_string(&RecordedRun { time, machine: machine(), ratios }).map_err(|e| failed(e.into()))?;
    let mut to = std::fs::File::options().append(true).create(true).open(file).map_err(failed)?;
    writeln!(to, "{line}").map_err(failed)?;
    let text = std::fs::read_to_string(file).map_err(failed)?;
    let runs: Result<Vec<RecordedRun>, _> = text.lines().map(serde_json::from_str).collect();
    let page = file.with_file_name("performance.md");
    document::write(&page, &document::ALL_RUNS, &table(&runs.map_err(|e| failed(e.into()))?))
}

/// The ratios of all runs, row by row, in the order of first occurrence.
fn table(runs: &[RecordedRun]) -> String {
    let all: Vec<&Ratio> = runs.iter().flat_map(|run| &run.ratios).collect();
    let mut machines: Vec<&str> = runs.iter().map(|run| run.machine.as_str()).collect();
    machines.dedup();
    let mut text = format!("{} runs at different times. {}.\n\n", runs.len(), machines.join("; "));
    let header = ["target", "what", "Longarm", "beside", "lowest", "median", "highest", "target is", "reached"];
    let _ = writeln!(text, "| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
    for (at, first) in all.iter().enumerate() {
        if all[..at].iter().any(|earlier| earlier.is_same_row(first)) {
            continue;
        }
        let same: Vec<&&Ratio> = all.iter().filter(|ratio| ratio.is_same_row(first)).collect();
        let ratios: Vec<f64> = same.iter().map(|ratio| ratio.ratio).collect();
        let (low, high) =
            ratios.iter().fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), r| (low.min(*r), high.max(*r)));
        let middle = median(&ratios).unwrap_or(f64::NAN);
        let last = same[same.len() - 1];
        let reached = same.iter().filter(|ratio| ratio.reached == Some(true)).count();
        let verdict = if last.goal.is_empty() { String::new() } else { format!("{reached} of {}", same.len()) };
        let Ratio { target, what, ours, beside, goal, .. } = last;
        let _ = writeln!(
            text,
            "| {target} | {what} | {ours} | {beside} | {low:.2} × | {middle:.2} × | {high:.2} × | {goal} | {verdict} |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(ratio: f64, reached: bool) -> RecordedRun {
        let [target, what, ours, beside] = ["S1", "SEND 8 B", "Longarm", "UCX"].map(String::from);
        let ratio = Ratio { target, what, ours, beside, ratio, goal: "≤ 1.5 ×".into(), reached: Some(reached) };
        RecordedRun { time: 1, machine: "a machine".into(), ratios: vec![ratio] }
    }

    #[test]
    fn the_range_is_that_of_all_runs() {
        let text = table(&[run(1.4, true), run(1.25, true), run(1.6, false)]);
        assert!(text.starts_with("3 runs at different times. a machine."), "{text}");
        let row = "| S1 | SEND 8 B | Longarm | UCX | 1.25 × | 1.40 × | 1.60 × | ≤ 1.5 × | 2 of 3 |";
        assert_eq!(text.lines().filter(|line| line.starts_with("| S1")).collect::<Vec<_>>(), [row]);
    }

    #[test]
    fn runs_are_added_to_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("runs.jsonl");
        std::fs::write(&file, serde_json::to_string(&run(1.4, true)).unwrap() + "\n").unwrap();
        record(&file, &[], &Results::default()).unwrap();
        let lines = std::fs::read_to_string(&file).unwrap();
        assert_eq!(lines.lines().count(), 2);
        let page = std::fs::read_to_string(dir.path().join("performance.md")).unwrap();
        assert!(page.contains("2 runs at different times") && page.contains("1 of 1"), "{page}");
        std::fs::write(&file, "no run\n").unwrap();
        assert!(record(&file, &[], &Results::default()).is_err());
    }
}

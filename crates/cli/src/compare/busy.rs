//! `longarm compare --busy`: measurements on a machine with other work.
//!
//! Only the pairs that share one core are pinned. All contenders run in turn under the same load. Every process,
//! the load included, ends together with this one.

mod load;
mod rows;
mod task;

use std::collections::BTreeMap;

use comfy_table::{Table, presets};

use super::page::HEADER;
use super::stats::Summary;
use super::tools::Effort;
use crate::error::Error;
use load::Load;
use rows::{BusyRow, rows};
use task::BusyJob;

/// The figures of all rounds, and the failures.
#[derive(Default)]
struct Figures {
    of: BTreeMap<(BusyJob, usize), Vec<f64>>,
    failures: BTreeMap<BusyJob, Vec<String>>,
}

/// Measures, and prints the table in the format of the documents.
pub(super) fn run(rounds: usize, effort: &Effort, wanted: &[String]) -> Result<(), Error> {
    let chosen = |row: &BusyRow| wanted.is_empty() || wanted.iter().any(|id| row.id.eq_ignore_ascii_case(id));
    let rows: Vec<BusyRow> = rows().into_iter().filter(chosen).collect();
    if rows.is_empty() {
        return Err(Error::Usage("--rows: with --busy there are B1 to B5".into()));
    }
    let mut jobs: Vec<BusyJob> = rows.iter().flat_map(|row| [row.ours, row.theirs]).collect();
    jobs.sort_unstable();
    jobs.dedup();
    let mut figures = Figures::default();
    for round in 1..=rounds {
        eprintln!("busy: round {round} of {rounds}");
        // Group by load, so that all measurements under one load run in succession.
        for group in jobs.chunk_by(|a, b| a.0 == b.0) {
            let _load = Load::start(group[0].0.spinners())?;
            group.iter().for_each(|job| figures.measure(*job, effort));
        }
    }
    print(&rows, &figures);
    Ok(())
}

impl Figures {
    fn measure(&mut self, job: BusyJob, effort: &Effort) {
        match job.1.measure(job.0, effort) {
            Ok(values) => {
                for (place, value) in values.into_iter().enumerate() {
                    self.of.entry((job, place)).or_default().push(value);
                }
            }
            Err(why) => {
                eprintln!("  {}: {why}", job.1.contender_name());
                self.failures.entry(job).or_default().push(why);
            }
        }
    }

    fn summary(&self, job: BusyJob, place: usize) -> Option<Summary> {
        Summary::of(self.of.get(&(job, place))?)
    }
}

fn print(rows: &[BusyRow], figures: &Figures) {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(HEADER);
    for row in rows {
        table.add_row(cells(row, figures));
    }
    println!("{table}");
    for (job, failures) in &figures.failures {
        let last = failures.last().map_or("", String::as_str);
        println!("- {}: {} attempts failed: {last}", job.1.contender_name(), failures.len());
    }
}

fn cells(row: &BusyRow, figures: &Figures) -> [String; 9] {
    let (ours, theirs) = (figures.summary(row.ours, row.place), figures.summary(row.theirs, row.place));
    let (our_median, their_median) = (ours.map(|s| s.median), theirs.map(|s| s.median));
    let spread = |summary: Option<Summary>| match summary {
        None => "not measured".into(),
        Some(Summary { median, lower, upper }) => {
            format!("{} ({} to {})", row.unit.show(median), row.unit.show(lower), row.unit.show(upper))
        }
    };
    [
        row.id.into(),
        row.what.clone(),
        row.ours.1.contender_name(),
        spread(ours),
        row.theirs.1.contender_name(),
        spread(theirs),
        our_median.zip(their_median).map_or(String::new(), |(ours, theirs)| format!("{:.2} ×", ours / theirs)),
        row.goal_words(),
        match row.goal.is_reached(our_median, their_median) {
            Some(true) => "yes".into(),
            Some(false) => "**no**".into(),
            None => "unknown".into(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_cells_without_figures() {
        let figures = Figures::default();
        for row in rows() {
            let cells = cells(&row, &figures);
            assert!(cells[..3].iter().all(|cell| !cell.is_empty()), "{cells:?}");
            assert_eq!(cells[8], "unknown");
        }
    }

    #[test]
    fn a_row_tells_who_wins() {
        let row = rows().into_iter().find(|row| row.id == "B1").unwrap();
        let mut figures = Figures::default();
        figures.of.insert((row.ours, 0), vec![3e9]);
        figures.of.insert((row.theirs, 0), vec![2e9]);
        let cells = cells(&row, &figures);
        assert_eq!((&*cells[6], &*cells[7], &*cells[8]), ("1.50 ×", "≥ 1 ×", "yes"));
    }
}

//! The command line of `longarm compare`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use comfy_table::{Table, presets};

use super::goals::{self, GoalRow};
use super::measure::Measure;
use super::page::{ComparePage, HEADER, cells, idle_cells};
use super::results::Results;
use super::scale::{IdleCost, idle_cost};
use super::series::{self, Figure};
use super::tools::{ADDRESS, Effort};
use super::{busy, document, guest, runs};
use crate::error::Error;
use crate::perf;

/// Measure Longarm beside UCX, perftest, iperf3 and sockets, and write docs/performance.md
#[derive(Args, Debug)]
pub(crate) struct CompareArgs {
    /// Short run: fewer and shorter figures, printed only
    #[arg(long)]
    quick: bool,
    /// Only these targets, separated by commas: S1,W2; printed only, without plots
    #[arg(long, value_delimiter = ',', value_name = "TARGETS")]
    rows: Vec<String>,
    /// Rounds of the table, which shows medians [default: 5; quick: 2]
    #[arg(long)]
    rounds: Option<usize>,
    /// Rounds of the plots [default: 3; quick or with --rows: 0]
    #[arg(long)]
    plot_rounds: Option<usize>,
    /// Approximate seconds per figure [default: 0.5; quick: 0.2]
    #[arg(long)]
    seconds: Option<f64>,
    /// Queue pairs of the scale targets [default: 10000; quick: 1000]
    #[arg(long)]
    qps: Option<u32>,
    /// Targets B1 to B5 instead: a busy machine, with processes that compute; printed only
    #[arg(long)]
    busy: bool,
    /// Add this run's ratios to a file with one run per line, and write their range over all runs into
    /// performance.md beside it
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Directory with the results of `longarm-interop --speed` in a virtual machine
    #[arg(long, value_name = "DIR")]
    guest: Option<PathBuf>,
    /// Directory for performance.md and the plots [default: docs; quick or with --rows: none]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// Message sizes of the plots.
const SIZES: [u32; 7] = [8, 64, 512, 4 << 10, 32 << 10, 256 << 10, 1 << 20];
/// Queue pairs of the plots; those of the scale targets are the last.
const QPS: [u32; 4] = [1, 10, 100, 1000];
/// Targets that do not compare a pair of figures.
const IDLE: [&str; 2] = ["C1", "C2"];
/// The target that needs a virtual machine.
const GUEST: &str = "C3";

/// `longarm compare`
pub(crate) fn run(args: &CompareArgs) -> Result<(), Error> {
    if args.busy {
        return run_busy(args);
    }
    let plan = ComparePlan::new(args)?;
    // Measure this first: later, freed memory of this process would be reused and hide the cost.
    let idle = plan.idle.then(|| idle_cost(&perf::open(ADDRESS)?, ADDRESS, plan.qps)).transpose()?;
    let mut results = Results::default();
    let mut notes = plan.notes.clone();
    if let Some(directory) = &args.guest {
        guest::load(directory, &mut results).map_err(|e| Error::File(directory.display().to_string(), e))?;
    }
    let pairs = plan.rows.iter().flat_map(|row| [Some(row.ours), row.theirs]).flatten();
    let table: Vec<Measure> = distinct(pairs.filter(Measure::is_ours_to_run));
    results.fill(&table, plan.rounds, &plan.effort, "table");
    let plotted = distinct(plan.figures.iter().flat_map(Figure::plan));
    results.fill(&plotted, plan.plot_rounds, &plan.effort, "plots");
    print(&plan.rows, &results, idle.as_ref());
    let failures: Vec<String> = results.failures().collect();
    failures.iter().for_each(|failure| println!("not measured: {failure}"));
    notes.extend(plan.without_peers(&results));
    let page = ComparePage {
        rows: &plan.rows,
        results: &results,
        idle: idle.as_ref(),
        figures: &plan.figures,
        rounds: plan.rounds,
        seconds: plan.effort.duration.as_secs_f64(),
        notes: &notes,
    };
    plan.dir.as_deref().map_or(Ok(()), |dir| write(dir, &page))?;
    args.record.as_deref().map_or(Ok(()), |file| runs::record(file, &plan.rows, &results))
}

fn run_busy(args: &CompareArgs) -> Result<(), Error> {
    let seconds = args.seconds.unwrap_or(if args.quick { 0.5 } else { 1.0 });
    let effort =
        Effort { duration: Duration::from_secs_f64(seconds.clamp(0.01, 60.0)), device: perf::device_name(ADDRESS)? };
    busy::run(args.rounds.unwrap_or(if args.quick { 1 } else { 5 }).max(1), &effort, &args.rows)
}

/// The measurements of a run.
struct ComparePlan {
    rows: Vec<GoalRow>,
    figures: Vec<Figure>,
    idle: bool,
    rounds: usize,
    plot_rounds: usize,
    qps: u32,
    effort: Effort,
    dir: Option<PathBuf>,
    notes: Vec<String>,
}

impl ComparePlan {
    fn new(args: &CompareArgs) -> Result<ComparePlan, Error> {
        let brief = args.quick || !args.rows.is_empty();
        let chosen = |id: &str| args.rows.is_empty() || args.rows.iter().any(|row| row.eq_ignore_ascii_case(id));
        let qps = args.qps.unwrap_or(if args.quick { 1000 } else { 10_000 });
        let mut rows = goals::rows(qps);
        rows.extend(args.guest.iter().flat_map(|_| goals::guest_rows()));
        let known = |wanted: &&String| {
            let mut ids = rows.iter().map(|row| row.id).chain(IDLE).chain([GUEST]);
            !ids.any(|id| id.eq_ignore_ascii_case(wanted))
        };
        if let Some(unknown) = args.rows.iter().find(known) {
            return Err(Error::Usage(format!("--rows {unknown}: there is no such target")));
        }
        rows.retain(|row| chosen(row.id));
        let plot_rounds = args.plot_rounds.unwrap_or(if brief { 0 } else { 3 });
        let mut numbers: Vec<u32> = QPS.into_iter().filter(|number| *number < qps).collect();
        numbers.push(qps);
        let seconds = args.seconds.unwrap_or(if args.quick { 0.2 } else { 0.5 });
        let device = perf::device_name(ADDRESS)?;
        let mut notes = Vec::new();
        if args.guest.is_none() && chosen(GUEST) {
            notes.push("C3, the kernel's drivers, was not measured: `cargo xtask compare --vm` does.".to_owned());
        }
        Ok(ComparePlan {
            rows,
            figures: if plot_rounds > 0 { series::figures(&SIZES, &numbers) } else { Vec::new() },
            idle: IDLE.into_iter().any(chosen),
            rounds: args.rounds.unwrap_or(if args.quick { 2 } else { 5 }).max(1),
            plot_rounds,
            qps,
            effort: Effort { duration: Duration::from_secs_f64(seconds.clamp(0.01, 60.0)), device },
            dir: args.dir.clone().or_else(|| (!brief).then(|| "docs".into())),
            notes,
        })
    }

    /// Notes about peers without any figure.
    fn without_peers(&self, results: &Results) -> Vec<String> {
        let mut missing = distinct(self.rows.iter().filter_map(|row| row.theirs));
        missing.retain(|theirs| !theirs.contender.is_ours());
        let mut names: Vec<_> = missing.iter().map(|theirs| theirs.contender).collect();
        names.sort_unstable();
        names.dedup();
        let silent = |contender| {
            let mut of = missing.iter().filter(|theirs| theirs.contender == contender);
            of.all(|theirs| results.summary(theirs).is_none())
        };
        let silent = names.into_iter().filter(|contender| silent(*contender));
        silent.map(|contender| format!("{} was not measured.", contender.name())).collect()
    }
}

/// Removes duplicates; keeps the order.
fn distinct(all: impl Iterator<Item = Measure>) -> Vec<Measure> {
    let mut seen = std::collections::BTreeSet::new();
    all.filter(|measure| seen.insert(*measure)).collect()
}

fn print(rows: &[GoalRow], results: &Results, idle: Option<&IdleCost>) {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(HEADER);
    for row in rows {
        table.add_row(cells(row, results));
    }
    for cells in idle.iter().flat_map(|idle| idle_cells(idle)) {
        table.add_row(cells);
    }
    println!("{table}");
}

fn write(dir: &Path, page: &ComparePage<'_>) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(|e| Error::File(dir.display().to_string(), e))?;
    for figure in page.figures {
        let path = dir.join(format!("performance-{}.svg", figure.name));
        let svg = figure.svg(page.results).map_err(Error::Usage)?;
        std::fs::write(&path, svg).map_err(|e| Error::File(path.display().to_string(), e))?;
    }
    document::write(&dir.join("performance.md"), &document::LAST_RUN, &page.markdown())
}

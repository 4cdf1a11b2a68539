//! `kv-sim`: replays one seed of the simulation of the whole store, or sweeps over many.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use longarm_kv::KvLayout;
use longarm_kv::sim::{Plant, SeedReport, run_planted, run_seed, trace_seed};

const USAGE: &str = "\
Deterministic simulation of the key-value store: clients, a server, and memory that clients read alone.

usage: kv-sim --layout LAYOUT --seed N [--trace]      run one seed, with everything that happens if wanted
       kv-sim [--layout LAYOUT] --runs K [--from N]   run K seeds in a row (from 0 unless told), of one layout or of each
       either with --plant BUG                        a mistake that the checks must find

LAYOUT is cluster, hopscotch, cuckoo, cluster-atomic or tree.
";

#[derive(Default)]
struct SimChoices {
    layout: Option<KvLayout>,
    plant: Option<Plant>,
    seed: Option<u64>,
    runs: u64,
    from: u64,
    trace: bool,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(SimChoices { layout: Some(layout), seed: Some(seed), plant, trace, .. }) => {
            replay(layout, seed, plant, trace)
        }
        Ok(choices) if choices.seed.is_none() && choices.runs > 0 => sweep(&choices),
        Ok(_) => usage("either --layout LAYOUT --seed N [--trace] or --runs K [--from N]"),
        Err(problem) => usage(&problem),
    }
}

fn usage(problem: &str) -> ExitCode {
    let plants = Plant::ALL.map(|plant| format!("{plant:?}").to_lowercase()).join(", ");
    eprintln!("kv-sim: {problem}\n\n{USAGE}BUG is {plants}.");
    ExitCode::from(2)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<SimChoices, String> {
    let mut choices = SimChoices::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
        match argument.as_str() {
            "--layout" => choices.layout = Some(value()?.parse().map_err(|error| format!("{error}"))?),
            "--plant" => {
                let name = value()?;
                choices.plant = Some(Plant::named(&name).ok_or_else(|| format!("there is no bug {name:?}"))?);
            }
            "--seed" => choices.seed = Some(number(value()?)?),
            "--runs" => choices.runs = number(value()?)?,
            "--from" => choices.from = number(value()?)?,
            "--trace" => choices.trace = true,
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(choices)
}

fn replay(layout: KvLayout, seed: u64, plant: Option<Plant>, is_traced: bool) -> ExitCode {
    let (lines, failure, report) = match trace_seed(layout, seed, plant) {
        Ok(report) => (report.lines.clone(), None, Some(report)),
        Err(failure) => (failure.lines.clone(), Some(failure), None),
    };
    let mut out = std::io::stdout().lock();
    if is_traced {
        // A reader that has seen enough is no error.
        let _ = lines.iter().try_for_each(|line| writeln!(out, "{line}"));
    }
    match failure {
        Some(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
        None => {
            let SeedReport { counts, figures, took_ns, .. } = report.unwrap_or_default();
            let _ = writeln!(out, "{layout}, seed {seed}: {took_ns} ns, {counts:?}, {figures:?}");
            ExitCode::SUCCESS
        }
    }
}

fn sweep(choices: &SimChoices) -> ExitCode {
    let mut failures = 0_u64;
    for layout in KvLayout::ALL.into_iter().filter(|layout| choices.layout.is_none_or(|wanted| wanted == *layout)) {
        let (begun, mut done, mut deaths, mut wipes) = (Instant::now(), 0, 0, 0);
        for seed in choices.from..choices.from.saturating_add(choices.runs) {
            let ran = match choices.plant {
                Some(plant) => run_planted(layout, seed, plant),
                None => run_seed(layout, seed),
            };
            match ran {
                Ok(report) => {
                    done += report.counts.done;
                    deaths += report.counts.deaths;
                    wipes += report.counts.wipes;
                }
                Err(failure) => {
                    failures += 1;
                    eprintln!("{failure}");
                }
            }
        }
        let (runs, seconds) = (choices.runs, begun.elapsed().as_secs_f64());
        println!(
            "{layout}: {runs} seeds, {done} operations, {deaths} deaths of clients, {wipes} of servers, {seconds:.1} s; \
             {failures} failures so far"
        );
    }
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

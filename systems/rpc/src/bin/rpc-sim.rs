//! `rpc-sim`: replays one seed of the RPC simulator, or sweeps over many.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Instant;

use longarm_rpc::sim::{SimWay, run_seed, trace_seed};

const USAGE: &str = "\
Deterministic simulation of RPC sessions.

usage: rpc-sim --way WAY --seed N [--trace]            replay one seed, with everything that happens if wanted
       rpc-sim [--way WAY] --runs K [--from SEED]      run K seeds in a row (from 0 unless told), of one way or of each
";

#[derive(Default)]
struct Choices {
    way: Option<SimWay>,
    seed: Option<u64>,
    runs: Option<u64>,
    from: u64,
    trace: bool,
}

fn main() -> ExitCode {
    let choices = parse(std::env::args().skip(1));
    match choices.as_ref().map(|choices| (choices, choices.way, choices.seed, choices.runs)) {
        Ok((choices, Some(way), Some(seed), None)) => replay(way, seed, choices.trace),
        Ok((choices, way, None, Some(runs))) => sweep(way, choices.from, runs),
        Ok(_) => usage("either --way WAY --seed N [--trace] or --runs K [--from SEED]"),
        Err(problem) => usage(problem),
    }
}

fn usage(problem: &str) -> ExitCode {
    eprintln!("rpc-sim: {problem}\n\n{USAGE}");
    ExitCode::from(2)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Choices, String> {
    let mut choices = Choices::default();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text:?} is not a number"));
        match argument.as_str() {
            "--way" => {
                let name = value()?;
                let way = SimWay::named(&name).ok_or_else(|| format!("there is no way {name:?}: {:?}", SimWay::ALL))?;
                choices.way = Some(way);
            }
            "--seed" => choices.seed = Some(number(value()?)?),
            "--runs" => choices.runs = Some(number(value()?)?),
            "--from" => choices.from = number(value()?)?,
            "--trace" => choices.trace = true,
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(choices)
}

fn replay(way: SimWay, seed: u64, is_verbose: bool) -> ExitCode {
    let (lines, outcome) = trace_seed(way, seed);
    let mut out = std::io::stdout().lock();
    // Standard output may be a pipe that closes early: that ends the output.
    for line in lines.iter().filter(|_| is_verbose) {
        if writeln!(out, "{line}").is_err() {
            break;
        }
    }
    match outcome {
        Ok(report) => {
            let _ = writeln!(out, "passed: {report:#?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            let _ = writeln!(out, "FAILED: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn sweep(way: Option<SimWay>, from: u64, runs: u64) -> ExitCode {
    let mut failed = 0;
    for way in SimWay::ALL.into_iter().filter(|other| way.is_none_or(|way| way == *other)) {
        let (begun, mut calls) = (Instant::now(), 0);
        for seed in from..from.saturating_add(runs) {
            match run_seed(way, seed) {
                Ok(report) => calls += report.calls,
                Err(failure) => {
                    failed += 1;
                    eprintln!("{failure}");
                }
            }
        }
        let per_seed = begun.elapsed().as_secs_f64() * 1e6 / runs as f64;
        println!("{way:?}: {runs} seeds, {calls} calls, {per_seed:.0} us for each seed; {failed} failures so far");
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

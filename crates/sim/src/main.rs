//! `longarm-sim`: replays one seed, or sweeps over many.

use std::io::Write as _;
use std::process::ExitCode;

use longarm_sim::{Failure, Report, Scenario, World, run, run_seed};

const USAGE: &str = "\
Deterministic simulation of the Longarm transport.

usage: longarm-sim --seed N [--trace]       replay one seed, with every packet if wanted
       longarm-sim --runs K [--from SEED]   run K seeds in a row (from 0 unless told)
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Replay { seed: u64, trace: bool },
    Sweep { runs: u64, from: u64 },
    Help,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Task::Replay { seed, trace }) => replay(seed, trace),
        Ok(Task::Sweep { runs, from }) => sweep(runs, from),
        Ok(Task::Help) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("longarm-sim: {problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(arguments: impl Iterator<Item = String>) -> Result<Task, String> {
    let (mut seed, mut runs, mut from, mut trace) = (None, None, None, false);
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments.next().ok_or_else(|| format!("{argument} needs a number"))?;
            text.parse::<u64>().map_err(|_| format!("{argument}: {text:?} is no number"))
        };
        match argument.as_str() {
            "--seed" => seed = Some(number()?),
            "--runs" => runs = Some(number()?),
            "--from" => from = Some(number()?),
            "--trace" => trace = true,
            "--help" | "-h" => return Ok(Task::Help),
            other => return Err(format!("{other:?} means nothing here")),
        }
    }
    match (seed, runs) {
        (Some(seed), None) if from.is_none() => Ok(Task::Replay { seed, trace }),
        (None, Some(runs)) if !trace => Ok(Task::Sweep { runs, from: from.unwrap_or(0) }),
        _ => Err("either --seed N [--trace] or --runs K [--from SEED]".into()),
    }
}

fn replay(seed: u64, trace: bool) -> ExitCode {
    let scenario = Scenario::generate(seed);
    // Standard output may be a pipe that closes early; that ends the show, not the program.
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{scenario}");
    let mut world = World::new(scenario, trace);
    let outcome = run(&mut world);
    for line in world.trace() {
        if writeln!(out, "{line}").is_err() {
            break;
        }
    }
    match outcome {
        Ok(report) => {
            let _ = writeln!(out, "passed: {}", summary(&report));
            ExitCode::SUCCESS
        }
        Err(reason) => {
            let _ = writeln!(out, "FAILED: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn summary(report: &Report) -> String {
    let net = &report.fabric;
    format!(
        "{} sends, {} messages received, {} queue pairs died, {} packets sent, {} lost, {} sent again, \
         {:.3} ms, hash {:016x}",
        report.sends,
        report.receives,
        report.failures,
        net.sent,
        net.lost,
        report.retransmitted,
        report.ended.0 as f64 / 1e6,
        report.hash
    )
}

fn sweep(runs: u64, from: u64) -> ExitCode {
    let mut failures: Vec<Failure> = Vec::new();
    for seed in from..from.saturating_add(runs) {
        if let Err(failure) = run_seed(seed) {
            eprintln!("\r{failure}");
            failures.push(failure);
        }
        let done = seed - from + 1;
        if done.is_multiple_of(10) || done == runs {
            eprint!("\r{done} of {runs} runs, {} failed ", failures.len());
        }
    }
    eprintln!();
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Task, String> {
        parse(line.split_whitespace().map(String::from))
    }

    #[test]
    fn the_command_line_says_what_to_do() {
        assert_eq!(parsed("--seed 7 --trace"), Ok(Task::Replay { seed: 7, trace: true }));
        assert_eq!(parsed("--runs 5"), Ok(Task::Sweep { runs: 5, from: 0 }));
        assert_eq!(parsed("--runs 5 --from 9"), Ok(Task::Sweep { runs: 5, from: 9 }));
        assert_eq!(parsed("-h"), Ok(Task::Help));
        for wrong in ["", "--seed", "--seed x", "--runs 1 --seed 2", "--what", "--seed 1 --from 2"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}

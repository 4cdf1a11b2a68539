//! `longarm-sim`: replays one seed, or sweeps over many.

use std::io::Write as _;
use std::process::ExitCode;

use longarm_sim::{Report, RunFailure, Scenario, World, connections, incast, run, run_seed};

const USAGE: &str = "\
Deterministic simulation of the Longarm transport and connection manager.

usage: longarm-sim [--connections] --seed N [--trace]       replay one seed, with every packet if wanted
       longarm-sim [--connections] --runs K [--from SEED]   run K seeds in a row (from 0 unless told)

  --connections   connection managers instead of queue pairs

       longarm-sim --incast [--seed N] [--dir DIR]          64 senders and one receiver behind a switch, with PFC,
                                                            DCQCN, both, neither: writes DIR/congestion.md and .svg
                                                            (DIR is docs unless told)
";

/// The command line's choices.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    Replay { what: What, seed: u64, trace: bool },
    Sweep { what: What, runs: u64, from: u64 },
    Incast { seed: u64, dir: String },
    Help,
}

/// The kind of simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    QueuePairs,
    Connections,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Task::Replay { what: What::QueuePairs, seed, trace }) => replay(seed, trace),
        Ok(Task::Replay { what: What::Connections, seed, trace }) => replay_connections(seed, trace),
        Ok(Task::Sweep { what, runs, from }) => sweep(what, runs, from),
        Ok(Task::Incast { seed, dir }) => write_incast(seed, &dir),
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
    let mut what = What::QueuePairs;
    let (mut is_incast, mut dir) = (false, None);
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        let mut number = || {
            let text = value()?;
            text.parse::<u64>().map_err(|_| format!("{argument}: {text:?} is not a number"))
        };
        match argument.as_str() {
            "--seed" => seed = Some(number()?),
            "--runs" => runs = Some(number()?),
            "--from" => from = Some(number()?),
            "--trace" => trace = true,
            "--incast" => is_incast = true,
            "--dir" => dir = Some(value()?),
            "--connections" => what = What::Connections,
            "--help" | "-h" => return Ok(Task::Help),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    if is_incast {
        return Ok(Task::Incast { seed: seed.unwrap_or(1), dir: dir.unwrap_or_else(|| "docs".into()) });
    }
    match (seed, runs) {
        (Some(seed), None) if from.is_none() => Ok(Task::Replay { what, seed, trace }),
        (None, Some(runs)) if !trace => Ok(Task::Sweep { what, runs, from: from.unwrap_or(0) }),
        _ => Err("either --seed N [--trace] or --runs K [--from SEED]".into()),
    }
}

fn write_incast(seed: u64, dir: &str) -> ExitCode {
    let outcomes = incast::LossControl::ALL.map(|way| incast::run(&incast::IncastPlan::new(way, seed)));
    let dir = std::path::Path::new(dir);
    let written = incast::chart(&outcomes).and_then(|svg| {
        let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).map_err(|e| format!("{name}: {e}"));
        write("congestion.svg", &svg)?;
        write("congestion.md", &incast::page(&outcomes))
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("longarm-sim: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn replay(seed: u64, trace: bool) -> ExitCode {
    let scenario = Scenario::generate(seed);
    let head = scenario.to_string();
    let mut world = World::new(scenario, trace);
    let outcome = run(&mut world).map(|report| summary(&report));
    show(&head, world.trace(), outcome)
}

fn replay_connections(seed: u64, trace: bool) -> ExitCode {
    let plan = connections::Plan::generate(seed);
    let head = plan.to_string();
    let mut world = connections::ConnectionsWorld::new(plan, trace);
    let outcome = connections::run(&mut world).map(|report| connections_summary(&report));
    show(&head, world.trace(), outcome)
}

/// Prints a run. Standard output may be a pipe that closes early; that ends the output, not the
/// program.
fn show(head: &str, trace: &[String], outcome: Result<String, String>) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let _ = write!(out, "{head}");
    for line in trace {
        if writeln!(out, "{line}").is_err() {
            break;
        }
    }
    match outcome {
        Ok(summary) => {
            let _ = writeln!(out, "passed: {summary}");
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

fn connections_summary(report: &connections::ConnectionsReport) -> String {
    let seen = |what: &str| report.seen.get(what).copied().unwrap_or_default();
    format!(
        "{} attempts, {} requests, {} established, {} messages repeated, {:.3} s, hash {:016x}",
        seen("asked"),
        seen("Request") + seen("SidrRequest"),
        seen("ReadyToUse") + seen("data before the RTU"),
        seen("repeated"),
        report.ended.as_secs_f64(),
        report.hash
    )
}

fn sweep(what: What, runs: u64, from: u64) -> ExitCode {
    let mut failures: Vec<RunFailure> = Vec::new();
    for seed in from..from.saturating_add(runs) {
        let outcome = match what {
            What::QueuePairs => run_seed(seed).map(|_| ()),
            What::Connections => connections::run_seed(seed).map(|_| ()),
        };
        if let Err(failure) = outcome {
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
        assert_eq!(parsed("--seed 7 --trace"), Ok(Task::Replay { what: What::QueuePairs, seed: 7, trace: true }));
        assert_eq!(parsed("--runs 5"), Ok(Task::Sweep { what: What::QueuePairs, runs: 5, from: 0 }));
        assert_eq!(
            parsed("--connections --runs 5 --from 9"),
            Ok(Task::Sweep { what: What::Connections, runs: 5, from: 9 })
        );
        assert_eq!(parsed("-h"), Ok(Task::Help));
        for wrong in ["", "--seed", "--seed x", "--runs 1 --seed 2", "--what", "--seed 1 --from 2"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}

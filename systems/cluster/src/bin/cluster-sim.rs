//! `cluster-sim`: runs seeds of the checks of this crate.

use std::process::ExitCode;
use std::time::Instant;

use longarm_cluster::sim::{ClusterSimReport, run_cluster_seed};

const USAGE: &str = "\
Seeded checks of members, terms and configurations.

usage: cluster-sim --seed N                run one seed
       cluster-sim --runs K [--from N]     run K seeds in a row, from 0 unless told
";

fn main() -> ExitCode {
    match parse() {
        Ok((from, runs)) => run(from, runs),
        Err(problem) => {
            eprintln!("cluster-sim: {problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse() -> Result<(u64, u64), String> {
    let (mut from, mut runs) = (0, 0);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        let number = value.parse::<u64>().map_err(|_| format!("{value:?} is not a number"))?;
        match argument.as_str() {
            "--seed" => (from, runs) = (number, 1),
            "--runs" => runs = number,
            "--from" => from = number,
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    if runs == 0 { Err("either --seed N or --runs K".into()) } else { Ok((from, runs)) }
}

fn run(from: u64, runs: u64) -> ExitCode {
    let (begun, mut sum, mut failures) = (Instant::now(), ClusterSimReport::default(), 0);
    for seed in from..from.saturating_add(runs) {
        match run_cluster_seed(seed, None) {
            Ok(report) => sum = sum.plus(report),
            Err(failure) => {
                failures += 1;
                eprintln!("{failure}");
            }
        }
    }
    println!("{runs} seeds, {sum:?}, {:.1} s; {failures} failures", begun.elapsed().as_secs_f64());
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

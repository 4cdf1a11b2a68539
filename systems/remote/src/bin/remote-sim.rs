//! `remote-sim`: runs seeds of the checks of this crate.

use std::process::ExitCode;
use std::time::Instant;

use longarm_remote::sim::{SeedReport, SimKind, run_seed};

const USAGE: &str = "\
Seeded checks of tables that readers read while their owner writes.

usage: remote-sim --kind KIND --seed N               run one seed
       remote-sim [--kind KIND] --runs K [--from N]  run K seeds in a row (from 0 unless told), of one kind or of each

KIND is cluster, hopscotch, cuckoo, clusterlines, clusteratomic, tree or treelines.
";

fn main() -> ExitCode {
    match parse() {
        Ok(choices) => choices.run(),
        Err(problem) => {
            eprintln!("remote-sim: {problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

#[derive(Default)]
struct SimChoices {
    kind: Option<SimKind>,
    from: u64,
    runs: u64,
}

fn parse() -> Result<SimChoices, String> {
    let mut choices = SimChoices::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{argument} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{value:?} is not a number"));
        match argument.as_str() {
            "--kind" => {
                choices.kind = Some(SimKind::named(&value).ok_or_else(|| format!("there is no kind {value:?}"))?)
            }
            "--seed" => (choices.from, choices.runs) = (number()?, 1),
            "--runs" => choices.runs = number()?,
            "--from" => choices.from = number()?,
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    if choices.runs == 0 { Err("either --seed N or --runs K".into()) } else { Ok(choices) }
}

impl SimChoices {
    fn run(&self) -> ExitCode {
        let mut failures = 0;
        for kind in SimKind::SOUND.into_iter().filter(|kind| self.kind.is_none_or(|wanted| wanted == *kind)) {
            let (begun, mut sum) = (Instant::now(), SeedReport::default());
            for seed in self.from..self.from.saturating_add(self.runs) {
                match run_seed(kind, seed) {
                    Ok(report) => sum = sum.plus(report),
                    Err(failure) => {
                        failures += 1;
                        eprintln!("{failure}");
                    }
                }
            }
            let seconds = begun.elapsed().as_secs_f64();
            println!("{kind:?}: {} seeds, {sum:?}, {seconds:.1} s; {failures} failures so far", self.runs);
        }
        if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

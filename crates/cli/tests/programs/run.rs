//! Runs the cases of a table one by one.

use std::time::{Duration, Instant};

use crate::case::{Case, CaseSetup};
use crate::group::ended;
use crate::support::Hosts;

/// Longer than each program takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// The time that a program without an end must run.
const MIN_RUNTIME: Duration = Duration::from_millis(700);
/// With faults: the last ACK of a program that has ended can be lost too. No process is left to
/// repeat it, so the peer rightly reports an error.
const ATTEMPTS_WITH_FAULTS: usize = 4;
/// Ping-pongs over many queue pairs with one receive queue end as soon as they have counted enough. Messages of
/// the peer may still be in flight to them, and then the peer may report an error, on any device.
const ATTEMPTS_WITH_STRAGGLERS: usize = 2;
const WITH_STRAGGLERS: &str = "srq_pingpong";

/// perftest measures the processor's clock first. On a busy machine it may find the measurement too uneven, and give up.
const ATTEMPTS_WITH_UNEVEN_CLOCK: usize = 3;
const UNEVEN_CLOCK: &str = "Correlation coefficient r^2";

/// Runs all cases; panics at the end with the commands and outputs of those that failed.
pub(crate) fn all(hosts: &Hosts, cases: &[Case]) {
    let failures: Vec<String> = cases.iter().filter_map(|case| last_failure(hosts, case)).collect();
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), cases.len(), failures.join("\n\n"));
}

/// The last failure if all attempts at a case fail.
fn last_failure(hosts: &Hosts, case: &Case) -> Option<String> {
    let attempts = match case.faults {
        Some(_) => ATTEMPTS_WITH_FAULTS,
        None if case.program.ends_with(WITH_STRAGGLERS) => ATTEMPTS_WITH_STRAGGLERS,
        None => 1,
    };
    let mut failures = (0..attempts).map_while(|_| failure_by_the_device(hosts, case));
    failures.nth(attempts - 1)
}

/// The failure of one attempt, unless the program could not measure the clock.
fn failure_by_the_device(hosts: &Hosts, case: &Case) -> Option<String> {
    let mut failed = failure(hosts, case)?;
    for _ in 1..ATTEMPTS_WITH_UNEVEN_CLOCK {
        if !failed.contains(UNEVEN_CLOCK) {
            break;
        }
        failed = failure(hosts, case)?;
    }
    Some(failed)
}

/// The failure of one attempt at a case.
fn failure(hosts: &Hosts, case: &Case) -> Option<String> {
    let mut command = hosts.longarm();
    command.args(case.arguments()).envs(case.variables()).current_dir(hosts.dir());
    let start = Instant::now();
    let (status, said) = ended(hosts, &mut command, if case.how == CaseSetup::Lives { MIN_RUNTIME } else { PATIENCE });
    eprintln!("{:5.1} s  {} {}", start.elapsed().as_secs_f32(), case.environment, case.arguments().join(" "));
    let problem = match (status, case.how) {
        (None, CaseSetup::Lives) => case.problem(&said),
        (None, _) => Some(format!("it goes on after {PATIENCE:?}")),
        (Some(status), CaseSetup::Lives) => Some(format!("it did not live: {status}")),
        (Some(status), _) if !status.success() => Some(status.to_string()),
        (Some(_), _) => case.problem(&said),
    };
    let problem = problem?;
    eprintln!("        {problem}");
    Some(format!("{} longarm {}: {problem}:\n{said}", case.environment, case.arguments().join(" ")))
}

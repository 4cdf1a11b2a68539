//! Runs the cases of a table, one after the other, on a host of their own.

use std::time::{Duration, Instant};

use crate::case::{Case, How};
use crate::group::ended;
use crate::support::Hosts;

/// Longer than any program takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// How long a program must live that does not end by itself.
const LIFE: Duration = Duration::from_millis(700);
/// With faults: the last acknowledge of a program that has ended can be lost as well, and then
/// nobody is there any more to send it again, so that the peer rightly complains.
const ATTEMPTS_WITH_FAULTS: usize = 4;
/// Ping-pongs over many queue pairs of one receive queue end as soon as they have counted enough, while
/// messages of their peer are still under way to them, and the peer may complain then, on any device.
const ATTEMPTS_WITH_STRAGGLERS: usize = 2;
const WITH_STRAGGLERS: &str = "srq_pingpong";

/// Runs all cases; panics at the end with the commands and outputs of those that failed.
pub(crate) fn all(hosts: &Hosts, cases: &[Case]) {
    let failures: Vec<String> = cases.iter().filter_map(|case| last_failure(hosts, case)).collect();
    assert!(failures.is_empty(), "{} of {} failed:\n{}", failures.len(), cases.len(), failures.join("\n\n"));
}

/// What went wrong with all attempts at a case.
fn last_failure(hosts: &Hosts, case: &Case) -> Option<String> {
    let attempts = match case.faults {
        Some(_) => ATTEMPTS_WITH_FAULTS,
        None if case.program.ends_with(WITH_STRAGGLERS) => ATTEMPTS_WITH_STRAGGLERS,
        None => 1,
    };
    let mut failures = (0..attempts).map_while(|_| failure(hosts, case));
    failures.nth(attempts - 1)
}

/// What went wrong with a case.
fn failure(hosts: &Hosts, case: &Case) -> Option<String> {
    let mut command = hosts.longarm();
    command.args(case.arguments()).envs(case.variables()).current_dir(&hosts.dir);
    let start = Instant::now();
    let (status, said) = ended(hosts, &mut command, if case.how == How::Lives { LIFE } else { PATIENCE });
    eprintln!("{:5.1} s  {} {}", start.elapsed().as_secs_f32(), case.environment, case.arguments().join(" "));
    let problem = match (status, case.how) {
        (None, How::Lives) => case.problem(&said),
        (None, _) => Some(format!("it goes on after {PATIENCE:?}")),
        (Some(status), How::Lives) => Some(format!("it did not live: {status}")),
        (Some(status), _) if !status.success() => Some(status.to_string()),
        (Some(_), _) => case.problem(&said),
    };
    let problem = problem?;
    eprintln!("        {problem}");
    Some(format!("{} longarm {}: {problem}:\n{said}", case.environment, case.arguments().join(" ")))
}

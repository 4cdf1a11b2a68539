//! The whole run, inside its namespaces: boots the guest and runs the cases one by one.

use std::path::Path;
use std::time::Instant;

use crate::case::{Case, ETHERNET, FAMILIES, IpFamily, ROLES, Role};
use crate::exchange::{DeviceAddresses, OUR_V4, OUR_V6, THEIR_V4, THEIR_V6, Wire};
use crate::guest::Guest;
use crate::local::Local;
use crate::options::InteropOptions;
use crate::tables::CaseGroup;
use crate::tally::RunTally;
use crate::{golden, namespace, suites, tables, trials};

/// Longarm's device on the wire, and the guest's.
const OURS: &str = "la_lab0";
const THEIRS: &str = "rxe0";

/// Runs the cases that the options select; the error lists the failures.
pub(crate) fn all(options: &InteropOptions, run: &Path) -> Result<(), String> {
    let start = Instant::now();
    namespace::set_up()?;
    let mut local = Local::new(run)?;
    let mut guest = Guest::boot(&options.kernel, namespace::LINK, run)?;
    println!("interop: Linux {} with Soft-RoCE is up after {:.1} s", guest.release, start.elapsed().as_secs_f32());
    let devinfo = guest.run(&format!("ibv_devinfo -v -d {THEIRS}"))?;
    let theirs = DeviceAddresses::new(THEIRS, &devinfo, THEIR_V4, THEIR_V6)?;
    let ours = DeviceAddresses::new(OURS, &local.run(&format!("ibv_devinfo -v -d {OURS}"))?, OUR_V4, OUR_V6)?;
    let captures = options.capture.then(|| run.to_owned());
    let mut wire = Wire { local, guest, ours, theirs, mtu: ETHERNET, netem: None, captures };

    let mut tally = RunTally::default();
    for group in &tables::GROUPS {
        let chosen: Vec<&Case> = group.cases.iter().filter(|case| is_chosen(group, case, options)).collect();
        if !chosen.is_empty() {
            println!("{}", group.title);
        }
        for case in chosen.iter().flat_map(|case| std::iter::repeat_n(case, options.repeat as usize)) {
            each_way(&mut wire, case, options.short, &mut tally)?;
        }
    }
    wire.set_mtu(ETHERNET)?;
    golden::all(&mut wire, options, run, &mut tally)?;
    suites::all(&mut wire.guest, options, run, &mut tally)?;
    trials::all(&mut wire, options, &mut tally)?;
    tally.report(start)
}

fn is_chosen(group: &CaseGroup, case: &Case, options: &InteropOptions) -> bool {
    (case.short || !options.short) && format!("{}: {}", group.title, case.name()).contains(&options.only)
}

/// Runs a case with Longarm as client and as server, over IPv4 and IPv6. In brief: one family for each role.
fn each_way(wire: &mut Wire, case: &Case, briefly: bool, tally: &mut RunTally) -> Result<(), String> {
    let ways = ROLES.into_iter().flat_map(|role| FAMILIES.into_iter().map(move |family| (role, family)));
    wire.set_mtu(case.mtu)?;
    for (role, family) in ways.filter(|way| case.can(*way) && (!briefly || is_brief(case, *way))) {
        tally.count += 1;
        let failures = failures(wire, case, role, family)?;
        if failures.len() == case.attempts {
            tally.failures.extend(failures.into_iter().next_back());
        }
    }
    Ok(())
}

/// One family for each role, if the case can have both.
fn is_brief(case: &Case, (role, family): (Role, IpFamily)) -> bool {
    case.families.len() == 1 || (role == Role::Client) == (family == IpFamily::V4)
}

/// The problems of the attempts at a case, up to the first that succeeds.
fn failures(wire: &mut Wire, case: &Case, role: Role, family: IpFamily) -> Result<Vec<String>, String> {
    let mut failures = Vec::new();
    for attempt in 1..=case.attempts {
        let start = Instant::now();
        let exchange = case.exchange(&wire.ours, &wire.theirs, role, family);
        let capture = wire.capture()?;
        let outcome = wire.perform(&exchange)?;
        drop(capture);
        let problem = outcome.problem().or_else(|| case.problem(&outcome.client.1, &outcome.server.1));
        let verdict = problem.as_deref().unwrap_or(if case.verified { "ok, data compared" } else { "ok" });
        let title = format!("{} as {role:?} over {family:?}", case.name());
        println!("{:5.1} s  {title}: {verdict}", start.elapsed().as_secs_f32());
        match problem {
            None => break,
            Some(problem) => failures.push(format!("{title}, attempt {attempt}: {problem}\n{outcome}")),
        }
    }
    Ok(failures)
}

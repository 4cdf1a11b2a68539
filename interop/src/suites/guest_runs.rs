//! Runs the suites in the guest.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::{COMMANDS, LACKING, SUITES, SuiteDevice};
use crate::guest::Guest;
use crate::lab;
use crate::options::InteropOptions;
use crate::tally::RunTally;

/// The time limit of one test. The guest is emulated.
const PATIENCE: Duration = Duration::from_secs(90);
/// The files of the suites, in the guest.
const THERE: &str = "/tmp/suites";
/// The addresses of the guest's interface.
const ADDRESSES: &str = "10.77.0.11,fd77::b";
/// On a busy machine a READ between two queue pairs of siw sometimes gets no response (docs/interop.md).
const ATTEMPTS_ON_SIW: usize = 3;

/// Runs the suites that the options select on rxe and on siw. Afterwards the guest has rxe again.
///
/// # Errors
/// If the guest's channel or a device fails; failures of tests go to `tally`.
pub(crate) fn all(guest: &mut Guest, options: &InteropOptions, run: &Path, tally: &mut RunTally) -> Result<(), String> {
    let Some(suites) = &options.suites else { return Ok(()) };
    if !is_chosen_at_all(options) {
        return Ok(());
    }
    copy(suites, &run.join("lab/suites"))?;
    guest.run(&format!("cp -r /lab/suites {THERE} && chmod -R +x {THERE}"))?;
    on_device(guest, options, SuiteDevice::Rxe, tally)?;
    let siw = lab::directory().join(&options.kernel).join("siw.ko");
    if std::fs::copy(&siw, run.join("lab/siw.ko")).is_err() {
        println!("interop: NOT RUN on siw: its driver was not built");
        return Ok(());
    }
    guest.run("rdma link delete rxe0; modprobe -a libcrc32c iw_cm; insmod /lab/siw.ko")?;
    guest.run("rdma link add siw0 type siw netdev eth0")?;
    let ran = on_device(guest, options, SuiteDevice::Siw, tally);
    guest.run("rdma link delete siw0; rdma link add rxe0 type rxe netdev eth0")?;
    ran
}

fn on_device(
    guest: &mut Guest,
    options: &InteropOptions,
    device: SuiteDevice,
    tally: &mut RunTally,
) -> Result<(), String> {
    println!("The crate longarm on {}", device.name());
    for (suite, is_short) in SUITES {
        if options.short && !is_short {
            continue;
        }
        let listed = guest.run(&format!("cd {THERE}; ./{suite} --list"))?;
        for test in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
            if is_chosen(options, device, suite, test) {
                one_test(guest, device, (suite, test), tally)?;
            }
        }
    }
    for command in COMMANDS.iter().filter(|command| is_chosen(options, device, "longarm", command)) {
        one_command(guest, device, command, tally)?;
    }
    Ok(())
}

fn title(device: SuiteDevice, suite: &str, test: &str) -> String {
    format!("{} {suite}: {test}", device.name())
}

fn is_chosen(options: &InteropOptions, device: SuiteDevice, suite: &str, test: &str) -> bool {
    title(device, suite, test).contains(&options.only)
}

/// Without a name in `--only` every test is; with one the guest is asked for its tests only if it may be one.
fn is_chosen_at_all(options: &InteropOptions) -> bool {
    let named = || SUITES.into_iter().map(|(suite, _)| suite).chain(["longarm"]);
    let words = |device: SuiteDevice| named().map(move |suite| title(device, suite, ""));
    let may_be = |title: String| title.contains(&options.only) || options.only.starts_with(title.trim_end());
    options.only.is_empty() || [SuiteDevice::Rxe, SuiteDevice::Siw].into_iter().flat_map(words).any(may_be)
}

fn one_test(
    guest: &mut Guest,
    device: SuiteDevice,
    (suite, test): (&str, &str),
    tally: &mut RunTally,
) -> Result<(), String> {
    let command = format!("./{suite} {test} --exact --nocapture --test-threads=1");
    let (status, said, seconds) = run(guest, device, &command)?;
    let told: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("not there: ")).collect();
    let expected = lacking(device, suite, test);
    let problem = match status {
        Some(0) if told == expected => None,
        Some(0) => Some(format!("it says that these are not there: {told:?}; the table says {expected:?}")),
        status => Some(format!("{status:?}")),
    };
    report(tally, &title(device, suite, test), seconds, problem, &said);
    Ok(())
}

/// A command of `longarm`. It names everything that the table says is not there, and fails only if it asked for that.
fn one_command(guest: &mut Guest, device: SuiteDevice, command: &str, tally: &mut RunTally) -> Result<(), String> {
    let attempts = if device == SuiteDevice::Siw { ATTEMPTS_ON_SIW } else { 1 };
    for attempt in 1..=attempts {
        let (seconds, problem, said) = attempt_command(guest, device, command)?;
        if problem.is_none() || attempt == attempts {
            report(tally, &title(device, "longarm", command), seconds, problem, &said);
            break;
        }
        println!("{seconds:5.1} s  {}: attempt {attempt} failed", title(device, "longarm", command));
    }
    Ok(())
}

/// Seconds, the problem, and the output.
fn attempt_command(
    guest: &mut Guest,
    device: SuiteDevice,
    command: &str,
) -> Result<(f32, Option<String>, String), String> {
    let (status, said, seconds) = run(guest, device, &format!("./longarm {command}"))?;
    let expected = lacking(device, "longarm", command);
    let is_refused = said.contains(" has no ");
    let untold = expected
        .iter()
        .find(|what| !said.contains(&format!("not there: {what}")) && !said.contains(&format!(" has no {what}")));
    let problem = match (status, untold) {
        (_, Some(what)) => Some(format!("it does not say that this is not there: {what}")),
        _ if expected.is_empty() && said.contains("not there: ") => {
            Some("it lacks more than the table says".to_owned())
        }
        (Some(0), _) if !is_refused => None,
        (Some(1..=123), _) if is_refused && !expected.is_empty() => None,
        (status, _) => Some(format!("{status:?}")),
    };
    Ok((seconds, problem, said))
}

fn lacking(device: SuiteDevice, suite: &str, test: &str) -> Vec<&'static str> {
    let rows = LACKING.iter().filter(|row| row.suite == suite && row.test == test);
    rows.filter(|row| row.on.contains(&device)).map(|row| row.what).collect()
}

/// Exit status, output and seconds.
fn run(guest: &mut Guest, device: SuiteDevice, command: &str) -> Result<(Option<i32>, String, f32), String> {
    let start = Instant::now();
    let environment = format!(
        "LONGARM_PROVIDER=verbs LONGARM_DEVICE={} LONGARM_TEST_ADDRESSES={ADDRESSES} LONGARM_TEST_EXAMPLES={THERE}/programs",
        device.name()
    );
    let job = guest.start(&format!("cd {THERE}; {environment} {command}"), PATIENCE)?;
    let status = guest.wait(job, PATIENCE * 2)?;
    Ok((status, guest.output(job), start.elapsed().as_secs_f32()))
}

fn report(tally: &mut RunTally, title: &str, seconds: f32, problem: Option<String>, said: &str) {
    tally.count += 1;
    println!("{seconds:5.1} s  {title}: {}", problem.as_deref().unwrap_or("ok"));
    tally.failures.extend(problem.map(|problem| format!("{title}: {problem}\n{said}")));
}

/// Copies the programs without their symbols, which are most of them.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let problem = |error: std::io::Error| format!("{}: {error}", from.display());
    std::fs::create_dir_all(to).map_err(problem)?;
    for file in std::fs::read_dir(from).map_err(problem)? {
        let file = file.map_err(problem)?.path();
        let Some(name) = file.file_name() else { continue };
        if file.is_dir() {
            copy(&file, &to.join(name))?;
            continue;
        }
        let stripped = Command::new("strip").arg("--strip-debug").arg("-o").arg(to.join(name)).arg(&file).status();
        if !stripped.is_ok_and(|status| status.success()) {
            std::fs::copy(&file, to.join(name)).map_err(problem)?;
        }
    }
    Ok(())
}

//! The command line of `longarm run`, and its steps.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

use super::environment::Environment;
use super::error::StartFailure;
use super::namespace::{self, NamespaceView};
use super::options::RunOptions;
use super::{install, prepare, program};
use crate::sysfs;
use clap::{Args, ValueHint};

/// The hidden command that tests whether a namespace can be made.
pub(super) const PROBE: &str = "namespace-probe";

/// Run an unmodified RDMA program on Longarm's devices
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    options: RunOptions,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  longarm run -- ibv_devinfo
  longarm run --faults seed=7,loss=0.01 -- ib_write_bw --report_gbits
  longarm run -- mpirun -n 2 ./program      a launcher: its children see the devices, too
  longarm run -- bash                       a shell in which every program does

Exit status: the program's; 127 if it is not found, 126 if it cannot be executed, 125 if
Longarm itself fails.";

/// `longarm run`. Returns only if the program was not executed.
pub(crate) fn run(args: &RunArgs) -> ExitCode {
    let failure = start(args);
    eprintln!("longarm: {failure}");
    ExitCode::from(failure.code())
}

fn start(args: &RunArgs) -> StartFailure {
    let [name, arguments @ ..] = args.command.as_slice() else {
        return StartFailure::Usage("no program is given".into());
    };
    let prepared = install::resolve(name, &args.options).and_then(|path| Ok((prepare(&path, &args.options)?, path)));
    let (environment, path) = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => return failure,
    };
    for (name, value) in environment.iter() {
        args.options.report(|| format!("{name}={}", value.display()));
    }
    execute(&path, name, arguments, &environment)
}

/// Executes the program in this process; returns only if that fails.
pub(crate) fn execute(path: &Path, name: &OsStr, arguments: &[OsString], environment: &Environment) -> StartFailure {
    let error = Command::new(path).arg0(name).args(arguments).envs(environment.iter()).exec();
    refusal(path, &error)
}

/// Explains why the system did not execute the program.
fn refusal(path: &Path, error: &std::io::Error) -> StartFailure {
    let missing = program::interpreter(path).filter(|interpreter| !interpreter.exists());
    let reason = match missing {
        Some(interpreter) => format!("its interpreter {} does not exist", interpreter.display()),
        None => error.to_string(),
    };
    StartFailure::NotExecutable { path: path.into(), reason }
}

/// The hidden command `namespace-probe`: tries to make a namespace and ends.
pub(crate) fn probe() -> ExitCode {
    let own = std::env::current_exe().unwrap_or_default();
    let tree = sysfs::class_tree(&[]);
    match namespace::enter(&NamespaceView { class: &tree, nodes: &[], library: &own, replaced: &[] }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refused) => {
            eprintln!("{refused}");
            ExitCode::FAILURE
        }
    }
}

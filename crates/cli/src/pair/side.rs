//! One side: a process that ends together with this one.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::Signal;

use super::{listen, tree};
use crate::run::{self, Environment, StartFailure};

/// The hidden command that ties the process to its parent.
const TIED: &str = "tied";

/// The time between SIGTERM and SIGKILL.
const KILL_DELAY: Duration = Duration::from_millis(500);

/// Execute a program that ends with its parent
#[derive(Args, Debug)]
pub(crate) struct TiedArgs {
    parent: i32,
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// A running side.
#[derive(Debug)]
pub(super) struct SideProcess {
    pub(super) name: &'static str,
    child: Child,
    ended: Option<ExitStatus>,
}

impl SideProcess {
    /// Starts a program. It gets SIGTERM when this thread ends.
    pub(super) fn start(
        name: &'static str,
        program: &Path,
        arguments: &[OsString],
        environment: &Environment,
    ) -> Result<SideProcess, StartFailure> {
        let mut command = Command::new("/proc/self/exe");
        command.arg(TIED).arg(std::process::id().to_string()).arg(program).args(arguments);
        command.envs(environment.iter()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(StartFailure::system(format!("start the {name}")))?;
        Ok(SideProcess { name, child, ended: None })
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its exit status, if it has ended.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Whether the process, or a descendant, listens for connections.
    pub(super) fn listens(&self) -> bool {
        listen::listens(self.child.id())
    }

    /// Ends the process and its descendants, if they still run.
    pub(super) fn end(&mut self) {
        let deadline = Instant::now() + KILL_DELAY;
        if self.ended().is_none() {
            tree::signal(self.child.id(), Signal::TERM);
        }
        while self.ended().is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        if self.ended().is_none() {
            tree::signal(self.child.id(), Signal::KILL);
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for SideProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// The exit code that a shell shows for this status.
pub(super) fn code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    u8::try_from(code & 0xff).unwrap_or(1)
}

/// The hidden command `tied`: ties this process to its parent and executes the program.
pub(crate) fn tied(args: &TiedArgs) -> ExitCode {
    let failure = match (tie_to(args.parent), args.command.as_slice()) {
        (Err(error), _) => StartFailure::system("watch the parent process")(error),
        (Ok(()), [program, arguments @ ..]) => {
            run::execute(Path::new(program), program, arguments, &Environment::default())
        }
        (Ok(()), []) => StartFailure::Usage("no program is given".into()),
    };
    eprintln!("longarm: {failure}");
    ExitCode::from(failure.code())
}

/// Makes this process, and the program that it becomes, end together with the parent.
fn tie_to(parent: i32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    if now == Some(parent) { Ok(()) } else { Err(io::Error::other("it has ended")) }
}

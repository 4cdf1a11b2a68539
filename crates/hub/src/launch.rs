//! Starting a hub.
//!
//! The hub is a process in a session of its own, and a child of `init`, not of the
//! application. It has none of the application's descriptors, signal settings, scheduling or
//! working directory. The application's `wait` and its `SIGCHLD` handler never report it.
//!
//! The hub's standard error is a pipe to the application until it is ready. So the application gets the reason for
//! a failure from the hub, from the loader, or from a program that is not a hub.
//!
//! The program is, in this order: `$LONGARM_HUB`; the
//! application itself, if necessary with this code's shared library loaded before
//! it (see [`embedded`](crate::embedded)); `longarm` beside the application;
//! `longarm` in `$PATH`. [`BECOME_HUB_VARIABLE`] tells the program to be the hub.
//!
//! A program with more rights than its caller (set-user-ID) starts only itself, with the ids of its effective user and
//! without its caller's environment. With file capabilities it starts no hub: the kernel would give the hub the
//! capabilities, too, and tell it not to trust its environment.
//!
//! Outside this module: it does not wait for the hub.

mod detach;

use crate::daemon::READY;
use crate::embedded::{self, BECOME_HUB_VARIABLE, OwnProgram};
use crate::rendezvous::RUNTIME_DIR_VARIABLE;
use crate::sys;
use guest::{environment, sanitizer};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use std::env;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

/// The environment variable that names the program to run as the hub.
pub const HUB_VARIABLE: &str = "LONGARM_HUB";

/// The hub's arguments: its name in the list of processes, and the command for a `longarm` that does not
/// read the variable.
const ARGUMENTS: [&CStr; 2] = [c"longarm-hub", c"hub"];

/// The loader's list of libraries to load first. The application's own list is not for the hub.
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// Longest report of a failure; the rest is dropped.
const MAX_REPORT_BYTES: usize = 4 << 10;

/// A hub that is being started.
#[derive(Debug)]
pub(crate) struct Launch {
    /// The hub's standard error.
    pipe: OwnedFd,
    report: Vec<u8>,
}

/// The progress of a [`Launch`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LaunchProgress {
    /// The hub is not ready yet.
    Pending,
    /// Clients can reach the hub.
    Ready,
    /// It ended, with this report.
    Failed(String),
}

/// Starts a hub in this thread's network namespace, with the directory that the application
/// uses. Takes about a millisecond.
///
/// # Errors
/// A reason for people, if no program could be executed.
pub(crate) fn start(runtime_dir: &Path, idle_timeout: Option<Duration>) -> Result<Launch, String> {
    if !environment::is_trusted() && sys::has_file_capabilities() {
        return Err("programs with file capabilities do not start it; start it before with `longarm up`".into());
    }
    let environment = variables(runtime_dir, idle_timeout);
    let mut problems = Vec::new();
    for OwnProgram { path, preload } in candidates() {
        let preload = preload.iter().flat_map(|library| preloading(library));
        let environment: Vec<CString> = preload.chain(environment.iter().cloned()).collect();
        match execute(&path, &ARGUMENTS, &environment) {
            Ok(pipe) => return Ok(Launch { pipe, report: Vec::new() }),
            Err(error) => problems.push(format!("{}: {error}", path.display())),
        }
    }
    if problems.is_empty() {
        problems.push(format!("there is no program for it: install the `longarm` command or set {HUB_VARIABLE}"));
    }
    Err(problems.join("; "))
}

impl Launch {
    /// Readable when there is progress.
    pub(crate) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    /// Reads the hub's output so far, without waiting.
    pub(crate) fn progress(&mut self) -> LaunchProgress {
        let mut chunk = [0; 512];
        loop {
            match rustix::io::read(&self.pipe, &mut chunk) {
                Ok(0) => return LaunchProgress::Failed(self.reason()),
                Ok(len) => self.keep(&chunk[..len]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return LaunchProgress::Pending,
                Err(error) => return LaunchProgress::Failed(error.to_string()),
            }
            if self.says_ready() {
                return LaunchProgress::Ready;
            }
        }
    }

    fn keep(&mut self, chunk: &[u8]) {
        let room = MAX_REPORT_BYTES.saturating_sub(self.report.len());
        self.report.extend_from_slice(&chunk[..chunk.len().min(room)]);
    }

    /// Whether a line of the report says so. (The loader and others may have written lines
    /// before.)
    fn says_ready(&self) -> bool {
        self.report.split_inclusive(|byte| *byte == b'\n').any(|line| line == READY.as_bytes())
    }

    fn reason(&self) -> String {
        let text = String::from_utf8_lossy(&self.report);
        match text.trim() {
            "" => "it ended without a message".into(),
            text => text.to_owned(),
        }
    }
}

/// Programs that may be the hub, the best first.
fn candidates() -> Vec<OwnProgram> {
    let alone = |path| OwnProgram { path, preload: None };
    if let Some(program) = environment::value(HUB_VARIABLE) {
        return vec![alone(program.into())];
    }
    if !environment::is_trusted() {
        // By a hard link its caller can put the program into any directory.
        return embedded::own_program().into_iter().collect();
    }
    let beside = env::current_exe().ok().and_then(|path| Some(path.parent()?.join("longarm")));
    let path = environment::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("longarm"));
    let installed = beside.into_iter().chain(in_path).filter(|path| path.is_file()).map(alone);
    embedded::own_program().into_iter().chain(installed).collect()
}

/// The hub's environment: this process's, if that can be trusted, and the variables for the hub.
fn variables(runtime_dir: &Path, idle_timeout: Option<Duration>) -> Vec<CString> {
    let ours = [BECOME_HUB_VARIABLE, RUNTIME_DIR_VARIABLE, PRELOAD_VARIABLE];
    let inherited = environment::all().into_iter().filter(|(name, _)| !ours.iter().any(|own| *own == name));
    let own = [
        (BECOME_HUB_VARIABLE.into(), embedded::value(idle_timeout).into()),
        (RUNTIME_DIR_VARIABLE.into(), runtime_dir.as_os_str().to_owned()),
    ];
    inherited.chain(own).filter_map(|(name, value)| variable(name, &value)).collect()
}

/// Variables that make the loader load a library before the program, and AddressSanitizer permit it.
fn preloading(library: &Path) -> impl Iterator<Item = CString> {
    let mut all = vec![variable(PRELOAD_VARIABLE.into(), library.as_os_str())];
    if sanitizer::is_present() {
        let mut options = environment::var_os(sanitizer::OPTIONS_VARIABLE).unwrap_or_default();
        options.push(":");
        options.push(sanitizer::OPTIONS_OF_PRELOADED);
        all.push(variable(sanitizer::OPTIONS_VARIABLE.into(), &options));
    }
    all.into_iter().flatten()
}

fn variable(mut name: OsString, value: &OsStr) -> Option<CString> {
    name.push("=");
    name.push(value);
    CString::new(name.into_vec()).ok()
}

/// Executes a program as a detached process. Returns the reading end of its standard error.
fn execute(program: &Path, arguments: &[&CStr], environment: &[CString]) -> io::Result<OwnedFd> {
    let path = CString::new(program.as_os_str().as_bytes())?;
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&reader, true)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let stdio = [above_stdio(&null)?, above_stdio(&null)?, above_stdio(&writer)?];
    detach::execute(&path, arguments, environment, stdio.each_ref().map(|fd| fd.as_fd()))?;
    Ok(reader)
}

/// A duplicate whose number is above those of standard input, output and error, which an
/// application may have closed.
fn above_stdio(fd: &OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
}

#[cfg(test)]
mod tests;

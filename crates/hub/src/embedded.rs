//! The hub inside every program that links this crate.
//!
//! A program that uses the Rust crate is often the only file of Longarm on a machine. So each
//! such program can be the hub, too. The loader runs a function before `main`, which reads
//! an environment variable ([`BECOME_HUB_VARIABLE`]). If it is set, the process runs the
//! hub and ends, and `main` never starts. To start a hub, a client executes its own program
//! with that variable (`own_program`). If this crate is in a shared library, which
//! programs in C load at run time, `LD_PRELOAD` makes the loader load it before `main`.
//!
//! The program's own copy is preferred to an installed `longarm` command: it always exists,
//! and always has the client's version of the protocol.
//!
//! Programs with more rights than their caller ignore the variable, since
//! the environment is the caller's.
//!
//! Outside this module: it starts nothing; that is `launch`.

mod hook;

use crate::daemon::{self, Announce, DaemonOptions};
use guest::environment;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Makes a program that links this crate run the hub instead of its `main`. The value is
/// `idle_timeout_ms=N`, or `idle_timeout_ms=never`.
pub const BECOME_HUB_VARIABLE: &str = "LONGARM_BECOME_HUB";

const IDLE_TIMEOUT: &str = "idle_timeout_ms=";
const NEVER: &str = "never";

/// A program that becomes the hub if it is executed with the variable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwnProgram {
    pub(crate) path: PathBuf,
    /// The library with the code that reads the variable, which the loader must load before the program's `main`.
    pub(crate) preload: Option<PathBuf>,
}

/// This program, if the code that reads the variable is certain to run before `main`. That code must be in
/// the executable, or in a shared library that the executable's loader can load first (`LD_PRELOAD`).
pub(crate) fn own_program() -> Option<OwnProgram> {
    let path = PathBuf::from("/proc/self/exe");
    if !path.exists() {
        return None;
    }
    if hook::is_in_executable() {
        return Some(OwnProgram { path, preload: None });
    }
    let library = hook::library().filter(|_| hook::has_loader())?;
    Some(OwnProgram { path, preload: Some(library) })
}

/// The variable's value for these options.
pub(crate) fn value(idle_timeout: Option<Duration>) -> String {
    match idle_timeout {
        Some(timeout) => format!("{IDLE_TIMEOUT}{}", timeout.as_millis()),
        None => format!("{IDLE_TIMEOUT}{NEVER}"),
    }
}

/// Reads what [`value`] wrote.
fn parse(value: &str) -> Option<DaemonOptions> {
    let idle_timeout = match value.strip_prefix(IDLE_TIMEOUT)? {
        NEVER => None,
        number => Some(Duration::from_millis(number.parse().ok()?)),
    };
    Some(DaemonOptions { idle_timeout, announce: Announce::ToLauncher, ..DaemonOptions::default() })
}

/// Runs the hub if the variable asks for it. Returns the exit code then.
fn become_hub_if_asked() -> Option<i32> {
    let value = environment::var_os(BECOME_HUB_VARIABLE)?;
    // For lists of processes: without it the name would be `exe`.
    let _ = rustix::thread::set_name(c"longarm-hub");
    let result = match value.to_str().and_then(parse) {
        Some(options) => daemon::run(&options).map_err(|error| error.to_string()),
        None => Err(format!("{BECOME_HUB_VARIABLE}={} is not understood", value.display())),
    };
    let Err(reason) = result else { return Some(0) };
    // If no process reads it, the reason is lost.
    let _ = writeln!(io::stderr(), "{reason}");
    Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_the_environment() {
        for idle_timeout in [None, Some(Duration::ZERO), Some(Duration::from_millis(10_000))] {
            assert_eq!(parse(&value(idle_timeout)).unwrap().idle_timeout, idle_timeout);
        }
        for broken in ["", "1", "idle_timeout_ms=", "idle_timeout_ms=-1", "idle_timeout_ms=1s"] {
            assert!(parse(broken).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn a_test_can_be_the_hub() {
        let own = OwnProgram { path: PathBuf::from("/proc/self/exe"), preload: None };
        assert_eq!(own_program().unwrap(), own);
    }
}

//! The hub inside every program that links this crate.
//!
//! A program that uses the Rust crate is often the only file of Longarm on a machine. So each
//! such program can be the hub, too: a function that the loader runs before `main` looks for
//! an environment variable ([`BECOME_HUB_VARIABLE`]); if it is there, the process runs the
//! hub and ends, and `main` never begins. To start a hub, a client executes its own program
//! once more with that variable (`own_program`). Where this crate is in a shared library, which
//! programs in C load at run time, the loader is told to load it before `main` as well.
//!
//! The program's own copy is preferred to an installed `longarm` command: it is always there,
//! and always speaks the client's version of the protocol.
//!
//! The variable is ignored in programs which run with more rights than their caller, since
//! the environment is the caller's.
//!
//! What this module does not do: it starts nothing; that is `launch`.

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

/// What to execute with the variable so that it becomes the hub.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OwnProgram {
    pub(crate) path: PathBuf,
    /// The library that the loader has to put before the program, because the code that looks
    /// for the variable is in it.
    pub(crate) preload: Option<PathBuf>,
}

/// This program once more, if the code that looks for the variable will run before `main` for
/// certain: because it is in the executable itself, or because it is in a shared library and
/// the executable has a loader that can be told to load it (`LD_PRELOAD`).
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

/// What the hook runs: the hub if the variable asks for it. Returns the exit code then.
fn become_hub_if_asked() -> Option<i32> {
    let value = environment::var_os(BECOME_HUB_VARIABLE)?;
    // In lists of processes; without it the hub would be called `exe`.
    let _ = rustix::thread::set_name(c"longarm-hub");
    let result = match value.to_str().and_then(parse) {
        Some(options) => daemon::run(&options).map_err(|error| error.to_string()),
        None => Err(format!("{BECOME_HUB_VARIABLE}={} is not understood", value.display())),
    };
    let Err(reason) = result else { return Some(0) };
    // Where there is nobody to hear it, there is nothing else to do.
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

//! `longarm kv memory`: the process that exposes the tables of a server.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::error::Error;

/// The command of that process: this program, as it runs now, also if its file has been replaced.
pub(super) fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("longarm").args(["kv", "memory"]);
    command
}

/// `longarm kv memory`, which `longarm kv serve --separate-memory` starts.
pub(super) fn run() -> Result<(), Error> {
    longarm_kv::serve_memory().map_err(|error| Error::Peer(error.to_string()))
}

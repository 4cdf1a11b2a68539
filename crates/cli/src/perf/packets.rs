//! Turns the shm path off, so that processes on this host exchange packets.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::error::Error;

const LOCAL: &str = "LONGARM_LOCAL";

/// For a command that shows packets: executes this program again with the shm path turned
/// off, unless the environment already sets it.
pub(crate) fn want_packets() -> Result<(), Error> {
    if std::env::var_os(LOCAL).is_some_and(|value| !value.is_empty()) {
        return Ok(());
    }
    let mut again = Command::new(std::env::current_exe()?);
    Err(again.args(std::env::args_os().skip(1)).env(LOCAL, "off").exec().into())
}

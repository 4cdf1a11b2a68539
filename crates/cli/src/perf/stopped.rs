//! Stops a peer's process for a while.

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;

/// A process that is stopped (SIGSTOP) until the value is dropped.
pub(super) struct Stopped(Pid);

impl Stopped {
    /// Stops a child process.
    pub(super) fn new(pid: u32) -> Result<Stopped, Error> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Error::Peer("the server has no process id".into()))?;
        kill_process(pid, Signal::STOP).map_err(std::io::Error::from)?;
        Ok(Stopped(pid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

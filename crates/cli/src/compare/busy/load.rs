//! Processes that only compute.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::error::Error;

/// The time that they run before a measurement starts.
const HEAD_START: Duration = Duration::from_millis(300);

/// A set of computing processes. They end when the value is dropped, or with this process.
pub(super) struct Load(Vec<Child>);

impl Load {
    pub(super) fn start(processes: u32) -> Result<Load, Error> {
        let (this, parent) = (std::env::current_exe()?, std::process::id().to_string());
        let mut load = Load(Vec::new());
        for _ in 0..processes {
            let mut command = Command::new(&this);
            command.args(["tied", &parent, "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            load.0.push(command.spawn()?);
        }
        if processes > 0 {
            std::thread::sleep(HEAD_START);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_processes_are_no_load() {
        assert!(Load::start(0).unwrap().0.is_empty());
    }
}

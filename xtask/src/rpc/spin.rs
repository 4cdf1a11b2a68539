//! Processes that only compute.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// The time that they run before a measurement starts.
const HEAD_START: Duration = Duration::from_millis(300);

/// Processes that spin until the value is dropped.
pub(super) struct SpinLoad(Vec<Child>);

impl SpinLoad {
    pub(super) fn start(processes: usize) -> Result<SpinLoad, String> {
        let mut load = SpinLoad(Vec::new());
        for _ in 0..processes {
            let mut command = Command::new("sh");
            let child = command.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
            load.0.push(child.map_err(|e| format!("cannot run sh: {e}"))?);
        }
        if processes > 0 {
            thread::sleep(HEAD_START);
        }
        Ok(load)
    }
}

impl Drop for SpinLoad {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

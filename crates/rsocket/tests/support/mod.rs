//! A process with a hub and a network namespace of its own, and the wait of all these tests.
#![allow(dead_code, reason = "each test uses part of it")]

use std::process::Command;
use std::time::{Duration, Instant};

const ROLE: &str = "LONGARM_TEST_ROLE";

/// Runs `body` there. To be called from the test function of that name itself.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ROLE).is_some() {
        return body();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(ROLE, "body");
    hub::testing::passes_with_hub(&format!("rsocket-{test}"), command);
}

/// Waits until `attempt` gives something, or fails the test.
pub(crate) fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::yield_now();
    }
}

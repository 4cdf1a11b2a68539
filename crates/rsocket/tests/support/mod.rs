//! A process with a hub and a network namespace of its own.

use std::process::Command;

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

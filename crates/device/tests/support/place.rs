//! A process with a hub and a network namespace of its own.

use testkit::{role, run_again};

/// Runs `body` there, and `peer` in each process that it starts as `"peer"`. The test function itself must call it.
pub(crate) fn with_hub(test: &str, variables: &[(&str, &str)], body: impl FnOnce(), peer: impl FnOnce()) {
    match role().as_deref() {
        Some("body") => return body(),
        Some("peer") => return peer(),
        _ => {}
    }
    let mut command = run_again(test, "body");
    command.envs(variables.iter().copied());
    hub::testing::passes_with_hub(&format!("device-{test}"), command);
}

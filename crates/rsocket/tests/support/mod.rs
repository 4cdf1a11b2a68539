//! A process with a hub and a network namespace of its own.

/// Runs `body` there. To be called from the test function of that name itself.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    if testkit::role().is_some() {
        return body();
    }
    hub::testing::passes_with_hub(&format!("rsocket-{test}"), testkit::run_again(test, "body"));
}

//! A place for one test: a hub with a directory and a network namespace of its own.

use std::path::PathBuf;

use super::{ROLE, run_again};

/// Runs `body` in a process of its own with a hub's directory of its own, in a network
/// namespace of its own, and `peer` in each that it starts as `"peer"`. To be called from the test function itself.
pub(crate) fn with_hub(test: &str, variables: &[(&str, &str)], body: impl FnOnce(), peer: impl FnOnce()) {
    if std::env::var(ROLE).as_deref() == Ok("body") {
        return body();
    }
    if std::env::var(ROLE).as_deref() == Ok("peer") {
        return peer();
    }
    let place = Place::new(test);
    let mut command = run_again(test, "body");
    command.env(hub::RUNTIME_DIR_VARIABLE, place.0.join("run"));
    command.envs(variables.iter().copied());
    let mut output = None;
    udp::testing::in_new_netns(|| output = Some(command.output().unwrap()));
    // For an ordinary user the namespace is another process, which has checked this already.
    let Some(output) = output else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

/// A directory, and the end of the hub in it.
struct Place(PathBuf);

impl Place {
    fn new(test: &str) -> Place {
        let path = std::env::temp_dir().join(format!("longarm-device-{test}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).unwrap();
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = hub::client::shutdown(Some(&self.0.join("run")), true);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

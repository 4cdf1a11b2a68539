//! A hub of its own for a test. Not part of the public interface; behind the feature `testing`.

use crate::{RUNTIME_DIR_VARIABLE, client};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A directory for a hub. Dropping it ends the hub and removes the directory.
#[derive(Debug)]
pub struct TestHubDir(PathBuf);

impl TestHubDir {
    /// A directory of this process's own.
    ///
    /// # Panics
    /// If the system refuses it.
    pub fn new(name: &str) -> TestHubDir {
        let path = std::env::temp_dir().join(format!("longarm-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a new directory");
        TestHubDir(path)
    }

    /// The hub's directory.
    pub fn runtime_dir(&self) -> PathBuf {
        self.0.join("run")
    }
}

impl Drop for TestHubDir {
    fn drop(&mut self) {
        let _ = client::shutdown(Some(&self.runtime_dir()), true);
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `command`, which is this test binary with one test, with a hub and a network namespace of its own.
///
/// # Panics
/// If the test does not pass.
pub fn passes_with_hub(name: &str, mut command: Command) {
    let place = TestHubDir::new(name);
    command.env(RUNTIME_DIR_VARIABLE, place.runtime_dir());
    let mut output = None;
    udp::testing::in_new_netns(|| output = Some(command.output().expect("the test binary runs")));
    // For an ordinary user the namespace is another process, which has checked this already.
    let Some(output) = output else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
}

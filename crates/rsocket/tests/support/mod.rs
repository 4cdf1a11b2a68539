//! A process with a hub and a network namespace of its own.

use std::path::PathBuf;
use std::process::Command;

const ROLE: &str = "LONGARM_TEST_ROLE";

/// Runs `body` there. To be called from the test function of that name itself.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    if std::env::var_os(ROLE).is_some() {
        return body();
    }
    let place = Place::new(test);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(ROLE, "body");
    command.env(hub::RUNTIME_DIR_VARIABLE, place.0.join("run"));
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
        let path = std::env::temp_dir().join(format!("longarm-rsocket-{test}-{}", std::process::id()));
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

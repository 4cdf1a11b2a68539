//! Further processes of a test.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

/// The variable that tells a test binary, run again for one test, its role in that test.
pub const ROLE: &str = "LONGARM_TEST_ROLE";

/// The role of this process, if another process of the test has given it one.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// The command that runs the test function `test` of this test binary again, in a role.
///
/// # Panics
/// If this process does not know its file.
pub fn run_again(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("a test binary has a path"));
    command.args([test, "--exact", "--nocapture"]).env(ROLE, role);
    command
}

/// The command that runs the program of its further arguments in a new network namespace, which has only a loop-back
/// that is down. For tests that only start programs; `udp::testing` makes namespaces for the test's own threads.
pub fn in_new_netns() -> Command {
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    command
}

/// Whether the tests run as root.
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Runs a command to its end.
///
/// # Panics
/// If it fails, with its output.
#[track_caller]
pub fn must_succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?} ended with {}:\n{}", output.status, said(&output));
    output
}

/// Copies a program, with its rights, for a test that runs the copy.
///
/// A process of its own writes the file. If this one did, a program that another thread starts meanwhile would inherit the
/// open file. The kernel runs no file that somebody can write (`ETXTBSY`).
///
/// # Panics
/// If that fails.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    must_succeed(Command::new("cp").arg(from.as_ref()).arg(to.as_ref()));
}

/// Standard output and error output as text.
pub fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

//! Programs of the workspace, for tests that run them.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{must_succeed, role};

/// The command with which Cargo builds targets of the workspace that are not up to date. The caller adds them: `--example name`.
///
/// Crates have the features that a test of the whole workspace gives to them. So nothing is built twice there.
///
/// The variables that Cargo sets for the test's own package are not passed on: the build script of `ring` runs again when they change.
/// All crates above it would be built anew, here and in the next build outside of a test.
///
/// # Panics
/// If this process does not know its file.
pub fn workspace_build() -> Command {
    let mut build = Command::new(env!("CARGO"));
    let of_package = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_", "OUT_DIR"].iter().any(|set| name.starts_with(set));
    for (name, _) in std::env::vars().filter(|(name, _)| of_package(name)) {
        build.env_remove(name);
    }
    let profile = profile();
    let mode = profile.file_name().and_then(|name| name.to_str()).expect("the names of profiles are text");
    build.args(["build", "--quiet", "--workspace", "--profile", if mode == "debug" { "dev" } else { mode }]);
    build.env("CARGO_TARGET_DIR", profile.parent().expect("a profile lies in TARGET"));
    build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    build
}

/// The directory of the programs that are built: `TARGET/PROFILE`.
///
/// # Panics
/// If this process does not know its file.
pub fn profile() -> PathBuf {
    let here = std::env::current_exe().expect("a test binary has a path");
    here.ancestors().nth(2).expect("tests lie in TARGET/PROFILE/deps").to_owned()
}

/// The program of an example. Cargo builds it first if it is not up to date.
///
/// # Panics
/// If Cargo cannot build the example.
#[track_caller]
pub fn example(name: &str) -> PathBuf {
    build_examples(&[name], &[]).join(name)
}

/// Builds the examples that are not up to date, with these features, such as `longarm-stream/tonic`. Returns the
/// directory of their programs. A process that has a role in a test finds them built.
///
/// # Panics
/// If Cargo cannot build an example.
#[track_caller]
pub fn build_examples(names: &[&str], features: &[&str]) -> PathBuf {
    if role().is_none() {
        let mut build = workspace_build();
        build.args(names.iter().flat_map(|name| ["--example", name]));
        must_succeed(build.args(features.iter().flat_map(|feature| ["--features", feature])));
    }
    profile().join("examples")
}

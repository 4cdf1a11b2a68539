//! Examples of the workspace, for tests that run them.

use std::path::PathBuf;
use std::process::Command;

use crate::{must_succeed, role};

/// The program of an example. Cargo builds it first if it is not up to date.
///
/// # Panics
/// If Cargo cannot build the example.
#[track_caller]
pub fn example(name: &str) -> PathBuf {
    build_examples(&[name], &[]).join(name)
}

/// Builds the examples that are not up to date, with these features, such as `longarm-stream/tonic`. Returns the
/// directory of their programs.
///
/// Crates also have the features that a test of the whole workspace gives to them. So nothing is built twice there. A process
/// that has a role in a test finds the examples built.
///
/// # Panics
/// If Cargo cannot build an example.
#[track_caller]
pub fn build_examples(names: &[&str], features: &[&str]) -> PathBuf {
    let here = std::env::current_exe().expect("a test binary has a path");
    let profile = here.ancestors().nth(2).expect("tests lie in TARGET/PROFILE/deps");
    if role().is_none() {
        let mode = profile.file_name().and_then(|name| name.to_str()).expect("the names of profiles are text");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--workspace", "--profile", if mode == "debug" { "dev" } else { mode }]);
        build.args(names.iter().flat_map(|name| ["--example", name]));
        build.args(features.iter().flat_map(|feature| ["--features", feature]));
        must_succeed(build.env("CARGO_TARGET_DIR", profile.parent().expect("a profile lies in TARGET")));
    }
    profile.join("examples")
}

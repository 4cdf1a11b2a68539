//! The examples run.

use std::path::PathBuf;
use std::process::Command;

/// The path of an example, which is built first if it is not up to date.
fn example(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let profile = here.ancestors().nth(2).expect("tests lie in TARGET/PROFILE/deps");
    let mode = profile.file_name().and_then(|name| name.to_str()).unwrap();
    if testkit::role().is_none() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--example", name, "--package", "longarm-kv", "--profile"]);
        build.arg(if mode == "debug" { "dev" } else { mode });
        testkit::must_succeed(build.env("CARGO_TARGET_DIR", profile.parent().unwrap()));
    }
    profile.join("examples").join(name)
}

/// Runs an example with a hub, and looks for words that it has to print.
fn run(test: &str, name: &str, wanted: &[&str]) {
    let example = example(name);
    if testkit::role().is_none() {
        return hub::testing::passes_with_hub(&format!("kv-{test}"), testkit::run_again(test, "body"));
    }
    let words = String::from_utf8(testkit::must_succeed(&mut Command::new(example)).stdout).unwrap();
    wanted.iter().for_each(|wanted| assert!(words.contains(wanted), "{wanted}: {words}"));
}

#[test]
fn tasks_share_a_table() {
    run("tasks_share_a_table", "tasks", &["100 tasks, 100 visits each: 10000 visits"]);
}

#[test]
fn tasks_have_ranges_and_put_alone() {
    let wanted = ["seller 7 has 50 offers, the last is \"seller 07/offer 049\"", "one_sided_puts: 980"];
    run("tasks_have_ranges_and_put_alone", "task_ways", &wanted);
}

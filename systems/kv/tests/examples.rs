//! The examples run.

use std::process::Command;

/// Runs an example with a hub, and looks for words that it has to print.
fn run(test: &str, name: &str, wanted: &[&str]) {
    let example = testkit::example(name);
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

//! Tests of the recipes and guides: the command understands each of their commands.

use std::fs;
use std::path::Path;

use clap::Parser;

use crate::Arguments;

fn text(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Parses a command. Behind two spaces and `#` is a remark.
fn understand(command: &str) {
    let words = command.split("  #").next().unwrap_or_default().split_whitespace();
    let words = words.map(|word| word.trim_matches('\''));
    Arguments::try_parse_from(words).unwrap_or_else(|error| panic!("{command}\n{error}"));
}

#[test]
fn the_compose_file_starts_three_servers() {
    let text = text("packaging/compose/compose.yaml");
    let commands: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("entrypoint: ")).collect();
    assert_eq!(commands.len(), 3);
    commands.into_iter().for_each(understand);
    let remarks: Vec<&str> = text.lines().filter_map(|line| Some(line.split_once("exec kv-a ")?.1)).collect();
    assert_eq!(remarks.len(), 1);
    remarks.into_iter().for_each(understand);
}

#[test]
fn the_unit_s_example_is_a_server() {
    let text = text("packaging/systemd/longarm-kv@.service");
    let arguments = text.lines().find_map(|line| Some(line.split_once("'ARGS=")?.1.split_once('\'')?.0));
    let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/")).unwrap();
    understand(&start.replace("$ARGS", arguments.expect("an example")));
}

#[test]
fn the_guide_s_commands_are_understood() {
    let text = text("docs/cluster-guide.md");
    let commands: Vec<&str> = text.lines().filter(|line| line.starts_with("longarm ")).collect();
    assert!(commands.len() > 8, "{commands:?}");
    commands.into_iter().for_each(understand);
}

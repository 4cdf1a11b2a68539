//! The list of commands in docs/redis.md is that of the door.

use std::collections::BTreeMap;
use std::path::Path;

/// The last lines before the list.
const MARK: &str = "--test documentation -->\n";

#[test]
fn the_list_of_commands_is_that_of_the_door() {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, group, summary) in longarm_resp::commands() {
        groups.entry(group).or_default().push(format!("| `{}` | {summary} |\n", name.to_uppercase()));
    }
    let sections = groups.iter().map(|(group, rows)| format!("\n| {group} | |\n|---|---|\n{}", rows.concat()));
    let list: String = sections.collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/redis.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (before, after) = page.split_once(MARK).expect("the mark of the list");
    if std::env::var_os("LONGARM_UPDATE").is_some() {
        std::fs::write(&file, format!("{before}{MARK}{list}")).unwrap();
        return;
    }
    assert_eq!(after, list, "LONGARM_UPDATE=1 cargo test -p longarm-resp --test documentation");
}

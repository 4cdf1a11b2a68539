//! The house's rules for English, as far as a program can check them.
//!
//! Comments and documents name the actor first, and an ACK is not called otherwise. Sentences stay short, and no type's
//! name stands in the place of a word.

mod paragraphs;
mod rules;
mod sentences;
mod source;
mod types;

use crate::run::root;
use paragraphs::Paragraph;
use rules::Rules;
use types::TypeNames;

/// Copied or generated from other words; the generators' strings are checked instead.
const GENERATED: [&str; 5] = [
    "docs/programs.md",
    "docs/interop-matrix.md",
    "docs/compatibility.md",
    "docs/congestion.md",
    "docs/rpc-results.md",
];

/// Reads all files of the repository; an error lists the sentences that break a rule.
pub(crate) fn check() -> Result<(), String> {
    let rules = Rules::new()?;
    let read = |file: String| match std::fs::read_to_string(root().join(&file)) {
        Ok(text) => Ok((file, text)),
        Err(e) => Err(format!("{file}: {e}")),
    };
    let files: Vec<(String, String)> = files()?.into_iter().map(read).collect::<Result<_, _>>()?;
    let sources = files.iter().filter(|(file, _)| file.ends_with(".rs"));
    let types = TypeNames::of(sources.map(|(_, text)| text.as_str()))?;
    let broken: Vec<String> = files.iter().flat_map(|(file, text)| broken_in(&rules, &types, file, text)).collect();
    if broken.is_empty() {
        println!("prose: every sentence is short and opens with its actor");
        return Ok(());
    }
    Err(format!("{} sentences break a rule for English:\n{}", broken.len(), broken.join("\n")))
}

/// The sentences of one file that break a rule, each with its place and the rule.
fn broken_in(rules: &Rules, types: &TypeNames, file: &str, text: &str) -> Vec<String> {
    let report = |paragraph: &Paragraph, start: usize, problem: &str, sentence: &str| {
        format!("{file}:{}: {problem}: {sentence}", paragraph.line_at(start))
    };
    let mut broken = Vec::new();
    let prose = if file.ends_with(".md") { paragraphs::document(text) } else { paragraphs::comments(text) };
    let is_history = file == "CHANGELOG.md";
    for paragraph in &prose {
        let breaks = rules.broken_by(&paragraph.text).filter(|_| !is_history);
        broken.extend(breaks.map(|(start, problem, sentence)| report(paragraph, start, problem, sentence)));
        let bare = types.bare_in(&paragraph.text);
        broken.extend(bare.map(|name| report(paragraph, 0, "a type like a word", &name)));
    }
    let strings = if file.ends_with(".rs") { paragraphs::strings(text) } else { Vec::new() };
    for paragraph in prose.iter().chain(&strings).filter(|paragraph| !paragraph.is_table()) {
        let long = sentences::long(&paragraph.text);
        broken.extend(long.map(|(start, sentence)| report(paragraph, start, "too long", sentence)));
    }
    broken
}

/// The sources and documents that git knows.
fn files() -> Result<Vec<String>, String> {
    let output = std::process::Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.c", "*.h", "*.md"])
        .current_dir(root())
        .output()
        .map_err(|e| format!("cannot run git: {e}"))?;
    let names = String::from_utf8_lossy(&output.stdout);
    let exists = |name: &&str| root().join(name).exists();
    let checked = names.lines().filter(exists).filter(|name| !GENERATED.contains(name));
    Ok(checked.map(String::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(file: &str, text: &str) -> Vec<String> {
        broken_in(&Rules::new().unwrap(), &TypeNames::of([text].into_iter()).unwrap(), file, text)
    }

    #[test]
    fn a_report_names_file_line_and_rule() {
        let long = "a ".repeat(26);
        let source = format!("/// Short.\n/// {long}\nfn f() {{ g(\"{long}\") }} // What it does.\n");
        let broken = broken("a.rs", &source);
        assert_eq!(broken.len(), 3);
        assert_eq!(broken[0], "a.rs:3: no actor: What it does.");
        assert!(broken[1].starts_with("a.rs:2: too long: a a") && broken[2].starts_with("a.rs:3: too long: a a"));
    }

    #[test]
    fn the_changelog_may_open_as_it_likes() {
        assert!(broken("CHANGELOG.md", "What is new.").is_empty());
    }

    #[test]
    fn the_repository_is_seen() {
        let files = files().unwrap();
        let sees = |name: &str| files.iter().any(|file| file == name);
        assert!(sees("README.md") && sees("xtask/src/prose/mod.rs") && !sees("docs/programs.md"));
    }
}

//! The house's rules for English, as far as a program can check them: comments and documents name the actor first.
//!
//! A sentence does not open with a free relative clause (`What ...`, `Who ...`), and an ACK is not called otherwise.

use regex::Regex;

use crate::run::root;

/// Written by tests from other programs' words, or a record of the past.
const NOT_CHECKED: [&str; 2] = ["CHANGELOG.md", "docs/programs.md"];

/// Reads all files of the repository; an error lists the sentences that break a rule.
pub(crate) fn check() -> Result<(), String> {
    let rules = Rules::new()?;
    let mut broken = Vec::new();
    for file in files()? {
        let text = std::fs::read_to_string(root().join(&file)).map_err(|e| format!("{file}: {e}"))?;
        let paragraphs = if file.ends_with(".md") { document(&text) } else { comments(&text) };
        for (line, paragraph) in paragraphs {
            broken.extend(rules.broken_by(&paragraph).map(|sentence| format!("{file}:{line}: {sentence}")));
        }
    }
    if broken.is_empty() {
        println!("prose: every sentence opens with its actor");
        return Ok(());
    }
    Err(format!(
        "{} sentences open without their actor, or have another word for ACK:\n{}",
        broken.len(),
        broken.join("\n")
    ))
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
    let checked = names.lines().filter(exists).filter(|name| !NOT_CHECKED.contains(name));
    Ok(checked.map(String::from).collect())
}

struct Rules {
    sentence: Regex,
    relative: Regex,
    acknowledge: Regex,
}

impl Rules {
    fn new() -> Result<Rules, String> {
        let regex = |text: &str| Regex::new(text).map_err(|e| e.to_string());
        Ok(Rules {
            sentence: regex(r"[.!?:;](?:\*\*|\))?\s+")?,
            relative: regex(r"^[\s*>|-]*(?:\d+\.\s+)?(?:\*\*)?(?:What|Who|Whoever|Whatever|Whose)\b[^?]*$")?,
            acknowledge: regex(
                r"(?i)\b(?:an?|the|no|one|its|each|these|of|for|last|selective) acknowledges?\b|\backnowledges (?:are|wait|leave|have|come|that)\b",
            )?,
        })
    }

    /// The sentences of a paragraph that break a rule.
    fn broken_by<'a>(&'a self, paragraph: &'a str) -> impl Iterator<Item = &'a str> {
        let mut starts: Vec<usize> = vec![0];
        starts.extend(self.sentence.find_iter(paragraph).map(|end| end.end()));
        let ends: Vec<usize> = starts[1..].iter().copied().chain([paragraph.len()]).collect();
        let sentences = starts.into_iter().zip(ends).map(|(start, end)| paragraph[start..end].trim());
        sentences.filter(|sentence| self.relative.is_match(sentence) || self.acknowledge.is_match(sentence))
    }
}

/// The paragraphs of a document with the line that each begins in; code is left out.
fn document(text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    paragraphs(text.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then(|| line.trim())
    }))
}

/// The paragraphs of a source file's comments.
fn comments(text: &str) -> Vec<(usize, String)> {
    let mut is_code = false;
    paragraphs(text.lines().map(|line| {
        let comment = comment(line)?;
        let is_fence = comment.starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some(comment)
    }))
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = ["//!", "///", "//", "/*", "*"].iter().find_map(|start| line.strip_prefix(start))?;
    Some(text.trim_end_matches("*/").trim())
}

/// Joins lines up to an empty one, a list item, a table row or a line that is none (`None`).
fn paragraphs<'a>(lines: impl Iterator<Item = Option<&'a str>>) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in lines.enumerate() {
        let Some(line) = line.filter(|line| !line.is_empty()) else {
            goes_on = false;
            continue;
        };
        let is_item = line.starts_with(['-', '*', '|', '#', '>']) && !line.starts_with("**");
        match all.last_mut().filter(|_| goes_on && !is_item) {
            Some((_, paragraph)) => *paragraph = format!("{paragraph} {line}"),
            None => all.push((number + 1, line.to_string())),
        }
        goes_on = true;
    }
    all
}

/// Whether the check sees a file of this name.
#[cfg(test)]
fn is_checked(name: &str) -> bool {
    files().unwrap().iter().any(|file| file == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(paragraph: &str) -> Vec<String> {
        Rules::new().unwrap().broken_by(paragraph).map(String::from).collect()
    }

    #[test]
    fn free_relatives_are_found_and_questions_are_not() {
        assert_eq!(broken("What is sent. The peer answers."), ["What is sent."]);
        assert_eq!(broken("It ends. Whoever waits wakes up"), ["Whoever waits wakes up"]);
        assert_eq!(broken("- **Who** drives it."), ["- **Who** drives it."]);
        assert!(broken("What arrives, packet by packet: is it one, and for whom?").len() == 1);
        assert!(broken("Why did it die? What did the peer send?").is_empty());
        assert!(broken("It tells what it knows, and who asked.").is_empty());
    }

    #[test]
    fn an_ack_is_an_ack() {
        assert_eq!(broken("The acknowledge leaves later."), ["The acknowledge leaves later."]);
        assert_eq!(broken("Acknowledges wait for company."), ["Acknowledges wait for company."]);
        assert!(broken("The peer acknowledges each packet.").is_empty());
    }

    #[test]
    fn comments_are_joined_and_code_is_left_out() {
        let source =
            "/// One sentence\n/// in two lines.\n///\n/// ```\n/// What = 1\n/// ```\nfn f() {}\n// Another.\n";
        assert_eq!(comments(source), [(1, "One sentence in two lines.".into()), (8, "Another.".into())]);
        assert_eq!(document("a\nb\n\n- c\n- d"), [(1, "a b".into()), (4, "- c".into()), (5, "- d".into())]);
    }

    #[test]
    fn the_repository_is_seen() {
        assert!(is_checked("README.md") && is_checked("xtask/src/prose.rs") && !is_checked("CHANGELOG.md"));
    }
}

//! Paragraphs of documents, comments and strings.

use super::source::{self, TextPiece};

/// Lines of text, joined by spaces.
#[derive(Debug)]
pub(super) struct Paragraph {
    pub(super) text: String,
    /// The offset of each line's text, and the number of the line.
    lines: Vec<(usize, usize)>,
}

impl Paragraph {
    fn new(number: usize, line: &str) -> Paragraph {
        Paragraph { text: line.to_string(), lines: vec![(0, number)] }
    }

    fn push(&mut self, number: usize, line: &str) {
        self.text.push(' ');
        self.lines.push((self.text.len(), number));
        self.text.push_str(line);
    }

    /// The number of the line that the offset lies in.
    pub(super) fn line_at(&self, offset: usize) -> usize {
        self.lines.iter().rev().find(|(start, _)| *start <= offset).map_or(0, |(_, number)| *number)
    }

    /// Whether this is a row of a table.
    pub(super) fn is_table(&self) -> bool {
        self.text.starts_with('|')
    }
}

/// The paragraphs of a document; code is left out.
pub(super) fn document(text: &str) -> Vec<Paragraph> {
    let lines = text.lines().enumerate().map(|(at, line)| Line { number: at + 1, kind: "", text: line.trim() });
    join(without_fences(lines))
}

/// The paragraphs of a source file's comments; examples are left out.
pub(super) fn comments(text: &str) -> Vec<Paragraph> {
    let lines = source::pieces(text).into_iter().filter_map(|piece| match piece {
        TextPiece::Comment { number, kind, text } => Some(Line { number, kind, text }),
        TextPiece::String { .. } => None,
    });
    join(without_fences(lines))
}

/// The paragraphs of a source file's strings, such as errors and help texts.
pub(super) fn strings(text: &str) -> Vec<Paragraph> {
    let strings = source::pieces(text).into_iter().filter_map(|piece| match piece {
        TextPiece::String { number, text } => Some((number, text)),
        TextPiece::Comment { .. } => None,
    });
    strings.filter(|(_, text)| !is_script(text)).flat_map(|(number, text)| string(number, text)).collect()
}

/// Whether a string is a script for a shell.
fn is_script(text: &str) -> bool {
    ["$", " > ", " && ", "; do"].iter().any(|sign| text.contains(sign))
}

/// The paragraphs of one string; its lines are those of the program, not those of the source.
fn string(number: usize, text: &str) -> Vec<Paragraph> {
    let text = source::unescaped(text);
    let lines = text.lines().map(|line| Line { number, kind: "", text: line.trim() });
    lines.filter(|line| !line.text.is_empty()).map(|line| Paragraph::new(number, line.text)).collect()
}

/// One line of prose.
struct Line<'a> {
    number: usize,
    /// The marker of a comment; lines of different kinds are different paragraphs.
    kind: &'static str,
    text: &'a str,
}

/// Blanks the lines of fenced code.
fn without_fences<'a>(lines: impl Iterator<Item = Line<'a>>) -> impl Iterator<Item = Line<'a>> {
    let mut is_code = false;
    lines.map(move |line| {
        let is_fence = line.text.starts_with("```");
        is_code ^= is_fence;
        if is_code || is_fence { Line { text: "", ..line } } else { line }
    })
}

/// Joins lines that follow each other, up to an empty one, a list item or a row of a table.
fn join<'a>(lines: impl Iterator<Item = Line<'a>>) -> Vec<Paragraph> {
    let mut all: Vec<Paragraph> = Vec::new();
    let mut open: Option<(usize, &'static str)> = None;
    for line in lines {
        if line.text.is_empty() {
            open = None;
            continue;
        }
        let goes_on = open == Some((line.number - 1, line.kind)) && line.kind != source::TRAILING;
        match all.last_mut().filter(|_| goes_on && !is_item(line.text)) {
            Some(paragraph) => paragraph.push(line.number, line.text),
            None => all.push(Paragraph::new(line.number, line.text)),
        }
        open = (!line.text.starts_with('#')).then_some((line.number, line.kind));
    }
    all
}

/// Whether a line opens a paragraph: an item of a list, a row of a table, a heading or a quotation.
fn is_item(line: &str) -> bool {
    let numbered = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_numbered = numbered.len() < line.len() && numbered.starts_with(". ");
    is_numbered || ["- ", "* ", "|", "#", ">"].iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(paragraphs: Vec<Paragraph>) -> Vec<(usize, String)> {
        paragraphs.into_iter().map(|paragraph| (paragraph.line_at(0), paragraph.text)).collect()
    }

    #[test]
    fn comments_are_joined_and_code_is_left_out() {
        let source =
            "/// One sentence\n/// in two lines.\n///\n/// ```\n/// What = 1\n/// ```\nfn f() {}\n// Another.\n";
        assert_eq!(read(comments(source)), [(1, "One sentence in two lines.".into()), (8, "Another.".into())]);
    }

    #[test]
    fn comments_of_other_kinds_or_behind_code_stand_alone() {
        let source = "//! Module.\n// Note.\nlet a = 1; // first\nlet b = 2; // second\n// third\n";
        let texts: Vec<String> = comments(source).into_iter().map(|paragraph| paragraph.text).collect();
        assert_eq!(texts, ["Module.", "Note.", "first", "second", "third"]);
    }

    #[test]
    fn items_and_headings_stand_alone() {
        let found = read(document("a\nb\n\n- c\n  d\n1. e\n**f**\n# g\nh"));
        assert_eq!(
            found,
            [(1, "a b".into()), (4, "- c d".into()), (6, "1. e **f**".into()), (8, "# g".into()), (9, "h".into())]
        );
    }

    #[test]
    fn strings_are_read_as_the_program_prints_them() {
        let found = read(strings("f(\"one \\\n   two\\nthree\")"));
        assert_eq!(found, [(1, "one two".into()), (1, "three".into())]);
        assert!(strings("f(\"cd / && ls\")").is_empty());
    }

    #[test]
    fn an_offset_has_its_line() {
        let paragraph = &document("ab\ncd")[0];
        assert_eq!((paragraph.line_at(2), paragraph.line_at(3)), (1, 2));
    }
}

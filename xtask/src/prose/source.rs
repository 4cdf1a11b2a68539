//! Comments and strings of Rust and C sources.

/// The kind of a comment that stands behind code.
pub(super) const TRAILING: &str = "trailing";

/// A piece of prose in a source file, with the number of its first line.
#[derive(Debug, PartialEq)]
pub(super) enum TextPiece<'a> {
    /// One line of a comment, without its marker.
    Comment { number: usize, kind: &'static str, text: &'a str },
    /// A string literal, without its quotes, its escapes as they are.
    String { number: usize, text: &'a str },
}

/// Reads a source from its start to its end.
pub(super) fn pieces(source: &str) -> Vec<TextPiece<'_>> {
    let mut reader = Reader { source, at: 0, pieces: Vec::new() };
    while reader.at < source.len() {
        reader.step();
    }
    reader.pieces
}

/// A string literal's value, as far as it matters to prose.
pub(super) fn unescaped(literal: &str) -> String {
    let mut value = String::new();
    let mut letters = literal.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some('\n')) => while letters.next_if(|letter| letter.is_whitespace()).is_some() {},
            ('\\', Some('n')) => value.extend(letters.next().map(|_| '\n')),
            ('\\', Some(_)) => value.extend(letters.next()),
            _ => value.push(letter),
        }
    }
    value
}

struct Reader<'a> {
    source: &'a str,
    at: usize,
    pieces: Vec<TextPiece<'a>>,
}

impl<'a> Reader<'a> {
    /// Takes a comment, a literal or one letter.
    fn step(&mut self) {
        let rest = &self.source[self.at..];
        if rest.starts_with("//") {
            self.line_comment(rest);
        } else if rest.starts_with("/*") {
            self.block_comment(rest);
        } else if let Some(hashes) = raw_string(rest).filter(|_| !self.is_in_word()) {
            self.raw_string(rest, hashes);
        } else if rest.starts_with('"') {
            self.string(rest);
        } else if rest.starts_with('\'') {
            self.at += character(rest);
        } else {
            self.at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }

    fn line_comment(&mut self, rest: &'a str) {
        let line = rest.lines().next().unwrap_or_default();
        let marker = ["//!", "///", "//"].into_iter().find(|marker| line.starts_with(marker)).unwrap_or("//");
        let kind = if self.is_behind_code() { TRAILING } else { marker };
        self.pieces.push(TextPiece::Comment { number: self.number(), kind, text: line[marker.len()..].trim() });
        self.at += line.len();
    }

    fn block_comment(&mut self, rest: &'a str) {
        let len = rest.find("*/").map_or(rest.len(), |end| end + 2);
        let (number, is_behind_code) = (self.number(), self.is_behind_code());
        let lines = rest[2..len].trim_end_matches("*/").lines().enumerate();
        let kind = if is_behind_code { TRAILING } else { "/*" };
        self.pieces.extend(lines.map(|(at, line)| {
            let text = line.trim().trim_start_matches('*').trim();
            TextPiece::Comment { number: number + at, kind, text }
        }));
        self.at += len;
    }

    fn string(&mut self, rest: &'a str) {
        let mut is_escaped = false;
        let end = rest[1..].find(|letter| {
            let is_end = letter == '"' && !is_escaped;
            is_escaped = letter == '\\' && !is_escaped;
            is_end
        });
        self.literal(rest, 1, end, 1);
    }

    fn raw_string(&mut self, rest: &'a str, hashes: usize) {
        let start = hashes + 2;
        let end = rest[start..].find(&format!("\"{}", "#".repeat(hashes)));
        self.literal(rest, start, end, hashes + 1);
    }

    /// Takes a literal of `start` bytes of quotes, a text up to `end`, and `after` bytes of quotes.
    fn literal(&mut self, rest: &'a str, start: usize, end: Option<usize>, after: usize) {
        let len = end.unwrap_or(rest.len() - start);
        self.pieces.push(TextPiece::String { number: self.number(), text: &rest[start..start + len] });
        self.at = (self.at + start + len + after).min(self.source.len());
    }

    fn number(&self) -> usize {
        self.source[..self.at].matches('\n').count() + 1
    }

    fn is_behind_code(&self) -> bool {
        let line = self.source[..self.at].rsplit('\n').next().unwrap_or_default();
        !line.trim().is_empty()
    }

    fn is_in_word(&self) -> bool {
        self.source[..self.at].ends_with(|letter: char| letter.is_alphanumeric() && letter != 'b')
    }
}

/// The number of `#` of a raw string that begins here.
fn raw_string(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('r')?;
    let text = after.trim_start_matches('#');
    text.starts_with('"').then_some(after.len() - text.len())
}

/// The length of a character literal, or of a lifetime's quote.
fn character(rest: &str) -> usize {
    let mut letters = rest.char_indices().skip(1);
    let is_escape = letters.next().is_some_and(|(_, letter)| letter == '\\');
    if is_escape {
        letters.next();
        return letters.find(|(_, letter)| *letter == '\'').map_or(1, |(at, _)| at + 1);
    }
    letters.next().filter(|(_, letter)| *letter == '\'').map_or(1, |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        let text = |piece| match piece {
            TextPiece::Comment { text, .. } | TextPiece::String { text, .. } => text,
        };
        pieces(source).into_iter().map(text).collect()
    }

    #[test]
    fn comments_and_strings_are_told_apart() {
        assert_eq!(
            pieces("let a = \"b // c\"; // d\n//! e"),
            [
                TextPiece::String { number: 1, text: "b // c" },
                TextPiece::Comment { number: 1, kind: TRAILING, text: "d" },
                TextPiece::Comment { number: 2, kind: "//!", text: "e" },
            ]
        );
    }

    #[test]
    fn block_comments_lose_their_stars() {
        let source = "/* a\n * b */\n*c = 1;";
        assert_eq!(texts(source), ["a", "b"]);
    }

    #[test]
    fn quotes_in_characters_and_raw_strings_open_nothing() {
        assert_eq!(texts(r##"'"' '\'' '\\' &'a str r#"b "c""# "d\"e" for"f""##), ["b \"c\"", "d\\\"e", "f"]);
    }

    #[test]
    fn escapes_become_lines() {
        assert_eq!(unescaped("a\\nb \\\n  c \\\"d\\\""), "a\nb c \"d\"");
    }

    #[test]
    fn unclosed_literals_end_with_the_source() {
        assert_eq!(texts("\"a"), ["a"]);
        assert_eq!(texts("r#\"a\""), ["a\""]);
    }
}

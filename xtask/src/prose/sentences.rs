//! Sentences and their length in words.

/// The longest sentence that a reader takes in at once.
const MOST_WORDS: usize = 25;

/// Words whose full stop does not end a sentence.
const ABBREVIATIONS: [&str; 6] = ["e.g", "i.e", "vs", "cf", "etc", "approx"];

/// The sentences of more than [`MOST_WORDS`] words, each with the offset at which it begins.
pub(super) fn long(paragraph: &str) -> impl Iterator<Item = (usize, &str)> {
    sentences(paragraph).into_iter().filter(|(_, sentence)| words(sentence) > MOST_WORDS)
}

/// Splits a paragraph behind `.`, `!`, `?` and `:`, where a space or the end follows.
fn sentences(paragraph: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    let mut start = 0;
    for end in ends(paragraph).chain([paragraph.len()]) {
        let sentence = &paragraph[start..end];
        let text = sentence.trim();
        if !text.is_empty() {
            all.push((start + sentence.len() - sentence.trim_start().len(), text));
        }
        start = end;
    }
    all
}

/// The offsets behind the marks that end sentences, outside of backquotes.
fn ends(paragraph: &str) -> impl Iterator<Item = usize> {
    let mut is_code = false;
    paragraph.char_indices().filter_map(move |(at, letter)| {
        is_code ^= letter == '`';
        let is_mark = matches!(letter, '.' | '!' | '?' | ':') && !is_code;
        if !is_mark || (letter == '.' && is_abbreviation(&paragraph[..at])) {
            return None;
        }
        let rest = &paragraph[at + 1..];
        let after = rest.trim_start_matches([')', '"', '\'', '*', '_', '»']);
        (after.is_empty() || after.starts_with(char::is_whitespace)).then_some(paragraph.len() - after.len())
    })
}

/// Whether the text before a full stop ends in an abbreviation.
fn is_abbreviation(text: &str) -> bool {
    let last = text.rsplit(|letter: char| !letter.is_alphanumeric() && letter != '.').next();
    last.is_some_and(|word| ABBREVIATIONS.contains(&word))
}

/// Counts words: a backquoted span is one, the address of a link none, a dash or another mark none.
fn words(sentence: &str) -> usize {
    let text = without_addresses(&without_code(sentence));
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// Replaces each backquoted span by one letter.
fn without_code(sentence: &str) -> String {
    let parts: Vec<&str> = sentence.split('`').collect();
    let is_closed = |at: usize| at + 1 < parts.len();
    let kept = parts.iter().enumerate().map(|(at, part)| if at % 2 == 1 && is_closed(at) { "x" } else { part });
    kept.collect()
}

/// Leaves out what stands between `](` and `)`.
fn without_addresses(sentence: &str) -> String {
    let mut parts = sentence.split("](");
    let first = parts.next().unwrap_or_default().to_string();
    parts.fold(first, |text, part| text + part.split_once(')').map_or("", |(_, after)| after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(paragraph: &str) -> Vec<&str> {
        sentences(paragraph).into_iter().map(|(_, sentence)| sentence).collect()
    }

    #[test]
    fn marks_end_sentences_before_a_space_only() {
        assert_eq!(split("One (see 4.1.2). Two: three! Four?"), ["One (see 4.1.2).", "Two:", "three!", "Four?"]);
        assert_eq!(split("**One.** Two. (Three.) Four"), ["**One.**", "Two.", "(Three.)", "Four"]);
        assert_eq!(split("a::b is `a. b` of 1.5 us"), ["a::b is `a. b` of 1.5 us"]);
    }

    #[test]
    fn abbreviations_end_nothing() {
        assert_eq!(
            split("Programs (e.g. UCX), i.e. all, rxe vs. us. End."),
            ["Programs (e.g. UCX), i.e. all, rxe vs. us.", "End."]
        );
    }

    #[test]
    fn sentences_know_where_they_begin() {
        assert_eq!(sentences("ab.  cd."), [(0, "ab."), (5, "cd.")]);
    }

    #[test]
    fn words_are_counted_as_read() {
        assert_eq!(words("one `two of many` three – [four five](docs/six and seven.md) - 8"), 6);
        assert_eq!(words("a lone ` counts not"), 4);
    }

    #[test]
    fn long_sentences_begin_above_the_limit() {
        assert_eq!(long(&"a ".repeat(MOST_WORDS)).count(), 0);
        assert_eq!(long(&"a ".repeat(MOST_WORDS + 1)).count(), 1);
    }
}

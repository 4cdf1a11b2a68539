//! The prompt of `longarm kv cli`.

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::many::ShellTable;
use crate::error::Error;

/// Reads commands and executes them, until the input ends.
pub(super) fn run(table: &mut ShellTable, server: &str) -> Result<(), Error> {
    let mut editor = DefaultEditor::new().map_err(failed)?;
    loop {
        let line = match editor.readline(&format!("{server}> ")) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(failed(error)),
        };
        let words = match split(&line) {
            Ok(words) => words,
            Err(why) => {
                eprintln!("{why}");
                continue;
            }
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.first().copied() {
            None => continue,
            Some("quit" | "exit") => return Ok(()),
            Some(_) => {}
        }
        // A line that the history refuses is executed all the same.
        let _ = editor.add_history_entry(&line);
        if let Err(error) = table.execute(&words) {
            eprintln!("{error}");
        }
    }
}

fn failed(error: ReadlineError) -> Error {
    Error::Usage(format!("the prompt: {error}"))
}

/// Words between spaces. Quotes keep spaces; a backslash keeps the next character.
fn split(line: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote, mut chars) = (Vec::new(), None::<String>, None, line.chars());
    while let Some(char) = chars.next() {
        match (char, quote) {
            ('\\', _) => word.get_or_insert_default().extend(chars.next()),
            ('"' | '\'', None) => {
                word.get_or_insert_default();
                quote = Some(char);
            }
            (end, Some(open)) if end == open => quote = None,
            (space, None) if space.is_whitespace() => words.extend(word.take()),
            (other, _) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    if quote.is_some() { Err("a quote is not closed".into()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_words_together() {
        let words = split(r#"set "a key" it\'s '' x"#).unwrap();
        assert_eq!(words, ["set", "a key", "it's", "", "x"]);
        assert!(split("  ").unwrap().is_empty() && split("get 'x").is_err());
    }
}

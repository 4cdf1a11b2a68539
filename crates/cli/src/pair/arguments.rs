//! The arguments of both sides.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::run::StartFailure;

/// The placeholder for the server's address.
const PLACEHOLDER: &str = "{server}";

/// The server's arguments: all without the address.
pub(super) fn server(command: &[OsString], more: &[String]) -> Vec<OsString> {
    let own = command.iter().filter(|word| !has_placeholder(word)).cloned();
    own.chain(more.iter().map(OsString::from)).collect()
}

/// The client's arguments: the server's address replaces the placeholder, or comes last.
pub(super) fn client(command: &[OsString], more: &[String], address: &str) -> Vec<OsString> {
    let words: Vec<OsString> = command.iter().cloned().chain(more.iter().map(OsString::from)).collect();
    let placed = words.iter().any(|word| has_placeholder(word));
    let fill = |word: OsString| match word.to_str() {
        Some(text) => OsString::from(text.replace(PLACEHOLDER, address)),
        None => word,
    };
    words.into_iter().map(fill).chain((!placed).then(|| address.into())).collect()
}

fn has_placeholder(word: &OsStr) -> bool {
    let len = PLACEHOLDER.len();
    word.as_bytes().windows(len).any(|window| window == PLACEHOLDER.as_bytes())
}

/// Splits a line like a shell: at blanks outside quotes; a backslash makes the next
/// character literal.
///
/// # Errors
/// If a quote does not end.
pub(super) fn split(line: &str) -> Result<Vec<String>, StartFailure> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(rest.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(StartFailure::Usage(format!("a quote does not end: {line}")));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_address_goes_to_the_client_only() {
        let command = os(&["-s", "65536"]);
        assert_eq!(server(&command, &[]), command);
        assert_eq!(client(&command, &[], "192.0.2.1"), os(&["-s", "65536", "192.0.2.1"]));
    }

    #[test]
    fn the_placeholder_says_where_it_goes() {
        let command = os(&["--peer={server}", "-v"]);
        assert_eq!(server(&command, &["-x".into()]), os(&["-v", "-x"]));
        assert_eq!(client(&command, &[], "::1"), os(&["--peer=::1", "-v"]));
        assert_eq!(client(&os(&["-v"]), &["-a".into(), "{server}".into()], "::1"), os(&["-v", "-a", "::1"]));
    }

    #[test]
    fn lines_are_split_as_by_a_shell() {
        for (line, words) in [
            ("", vec![]),
            (" -c  -a x ", vec!["-c", "-a", "x"]),
            ("'a b' \"c d\"e", vec!["a b", "c de"]),
            (r#"a\ b "\"" '\' ''"#, vec!["a b", "\"", "\\", ""]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        assert!(split("'a").is_err());
    }
}

//! Requests of words in a line, with quotes (`sdssplitargs` of Redis).

/// The words of a line; `None` if its quotes are not balanced.
pub(crate) fn words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut rest) = (Vec::new(), line);
    loop {
        rest = rest.trim_ascii_start();
        // A C string ends at a zero.
        if rest.first().is_none_or(|byte| *byte == 0) {
            return Some(words);
        }
        let mut word = Vec::new();
        rest = one_word(rest, &mut word)?;
        words.push(word);
    }
}

fn one_word<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [] | [0, ..] => return Some(rest),
            [b' ' | b'\n' | b'\r' | b'\t', after @ ..] => return Some(after),
            [quote @ (b'"' | b'\''), inside @ ..] => {
                rest = if *quote == b'"' { double(inside, word)? } else { single(inside, word)? };
                // A closing quote ends the word.
                let ends = rest.first().is_none_or(|byte| byte.is_ascii_whitespace() || *byte == 0x0b);
                return ends.then_some(rest);
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

fn double<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    loop {
        (rest, _) = match rest {
            [b'\\', b'x', high, low, after @ ..] if digit(*high).is_some() && digit(*low).is_some() => {
                (after, word.push((digit(*high)? * 16 + digit(*low)?) as u8))
            }
            [b'\\', escaped, after @ ..] => (after, word.push(escape(*escaped))),
            [b'"', after @ ..] => return Some(after),
            [byte, after @ ..] if *byte != 0 => (after, word.push(*byte)),
            _ => return None,
        };
    }
}

fn escape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    }
}

fn single<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        (rest, _) = match rest {
            [b'\\', b'\'', after @ ..] => (after, word.push(b'\'')),
            [b'\'', after @ ..] => return Some(after),
            [byte, after @ ..] if *byte != 0 => (after, word.push(*byte)),
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    fn split(line: &str) -> Option<Vec<String>> {
        words(line.as_bytes()).map(|words| words.into_iter().map(|word| String::from_utf8(word).unwrap()).collect())
    }

    #[test]
    fn words_may_stand_in_quotes() {
        assert_eq!(split("  set  k\t'a b' ").unwrap(), ["set", "k", "a b"]);
        assert_eq!(split(r#"a"b\x41\n\q" 'it\'s' """#).unwrap(), ["abA\nq", "it's", ""]);
        assert_eq!(split("").unwrap(), [""; 0]);
        for wrong in ["\"a", "'a", "\"a\"b", "'a'b", "\"a\\\""] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}

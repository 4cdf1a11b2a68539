//! Patterns of `KEYS`, `SCAN` and `PSUBSCRIBE`: `*`, `?`, `[a-z]`, `[^a]`, and a backslash before a character that means itself.

/// True if the pattern matches all of the text. It takes time in proportion to the product of both lengths at most.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    // Behind the last star, and the text that it has not yet taken: only the last star needs another attempt.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            star = Some((rest, text));
            pattern = rest;
            continue;
        }
        match (one(pattern, text), star) {
            (GlobStep::Both(rest, left), _) => (pattern, text) = (rest, left),
            (GlobStep::End, _) => return true,
            (GlobStep::No, Some((rest, [_, left @ ..]))) => {
                star = Some((rest, left));
                (pattern, text) = (rest, left);
            }
            (GlobStep::No, _) => return false,
        }
    }
}

enum GlobStep<'a> {
    /// One character of both fits; these are the rests.
    Both(&'a [u8], &'a [u8]),
    /// Both are at their end.
    End,
    No,
}

fn one<'a>(pattern: &'a [u8], text: &'a [u8]) -> GlobStep<'a> {
    match (pattern, text) {
        ([], []) => GlobStep::End,
        ([], _) | (_, []) => GlobStep::No,
        ([b'?', rest @ ..], [_, left @ ..]) => GlobStep::Both(rest, left),
        ([b'[', class @ ..], [byte, left @ ..]) => {
            let (fits, rest) = class_of(class, *byte);
            if fits { GlobStep::Both(rest, left) } else { GlobStep::No }
        }
        ([b'\\', wanted, rest @ ..], [byte, left @ ..]) if wanted == byte => GlobStep::Both(rest, left),
        ([b'\\', _, ..], _) => GlobStep::No,
        ([wanted, rest @ ..], [byte, left @ ..]) if wanted == byte => GlobStep::Both(rest, left),
        _ => GlobStep::No,
    }
}

/// True if the class has the byte, and the pattern behind its closing bracket. A class without one goes on to the end.
fn class_of(class: &[u8], byte: u8) -> (bool, &[u8]) {
    let (is_not, mut rest) = match class {
        [b'^', rest @ ..] => (true, rest),
        _ => (false, class),
    };
    let mut fits = false;
    loop {
        rest = match rest {
            [] => return (fits != is_not, rest),
            [b']', after @ ..] => return (fits != is_not, after),
            [b'\\', wanted, after @ ..] => {
                fits |= *wanted == byte;
                after
            }
            [low, b'-', high, after @ ..] => {
                fits |= (*low.min(high)..=*low.max(high)).contains(&byte);
                after
            }
            [wanted, after @ ..] => {
                fits |= *wanted == byte;
                after
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, yes, no) in [
            ("*", vec!["", "a"], vec![]),
            ("h?llo", vec!["hello"], vec!["hllo", "heello"]),
            ("h*llo", vec!["hllo", "heeello"], vec!["hell"]),
            ("h[ae]llo", vec!["hello", "hallo"], vec!["hillo"]),
            ("h[^e]llo", vec!["hallo"], vec!["hello"]),
            ("h[c-a]llo", vec!["hbllo"], vec!["hdllo"]),
            ("a\\*b", vec!["a*b"], vec!["axb"]),
            ("[\\]]", vec!["]"], vec!["\\"]),
            ("*a*b*", vec!["xaxbx", "ab"], vec!["ba"]),
            ("", vec![""], vec!["a"]),
            ("a**", vec!["a", "ab"], vec!["b"]),
        ] {
            assert!(yes.iter().all(|text| matches(pattern.as_bytes(), text.as_bytes())), "{pattern}");
            assert!(!no.iter().any(|text| matches(pattern.as_bytes(), text.as_bytes())), "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_little_time() {
        let pattern = [&b"*a".repeat(500)[..], b"b"].concat();
        assert!(!matches(&pattern, &vec![b'a'; 20_000]));
    }
}

//! Keys and values: a value's bytes follow from its number, so that torn ones are seen.

/// The name of a key.
pub(crate) fn key(number: usize) -> Vec<u8> {
    format!("key {number} {}", "x".repeat(number * 7 % 40)).into_bytes()
}

/// The bytes of a value. Counters are digits alone.
pub(crate) fn bytes(number: u64, is_counter: bool, longest: &[usize]) -> Vec<u8> {
    let mut bytes = number.to_string().into_bytes();
    if is_counter {
        return bytes;
    }
    let longest = longest[number as usize % longest.len()];
    let len_bytes = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % (longest + 1);
    bytes.push(b':');
    bytes.extend((0..len_bytes).map(|at| filler(number, at)));
    bytes.extend_from_slice(format!(":{len_bytes}").as_bytes());
    bytes
}

fn filler(number: u64, at: usize) -> u8 {
    b'a' + ((number as usize).wrapping_add(at * 7) % 26) as u8
}

/// The number of a value.
pub(crate) fn number(bytes: &[u8]) -> Result<u64, String> {
    let torn = || format!("no value has these {} bytes: {:?}", bytes.len(), String::from_utf8_lossy(bytes));
    let parse = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i64>().ok());
    let mut parts = bytes.splitn(2, |byte| *byte == b':');
    let number = parts.next().and_then(parse).ok_or_else(torn)? as u64;
    let Some(rest) = parts.next() else { return Ok(number) };
    let at = rest.iter().rposition(|byte| *byte == b':').ok_or_else(torn)?;
    let is_whole = parse(&rest[at + 1..]) == Some(at as i64)
        && rest[..at].iter().enumerate().all(|(at, byte)| *byte == filler(number, at));
    if is_whole { Ok(number) } else { Err(torn()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_torn_values_do_not() {
        for value in [1, 77, 1_000_003] {
            let whole = bytes(value, false, &[100]);
            assert_eq!(number(&whole), Ok(value));
            assert_eq!(number(&bytes(value, true, &[])), Ok(value));
            let other = bytes(value + 1, false, &[100]);
            assert!(
                whole.len() < 20 || number(&[&whole[..whole.len() / 2], &other[other.len() / 2..]].concat()).is_err()
            );
            assert!(number(&whole[..whole.len() - 1]).is_err());
        }
        assert!(number(b"").is_err() && number(b"x").is_err());
    }
}

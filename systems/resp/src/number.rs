//! Numbers as Redis reads and writes them.

/// A whole number: digits, with a minus sign perhaps. No plus sign, no leading zeros, no spaces (`string2ll` of Redis).
pub(crate) fn parse_i64(digits: &[u8]) -> Option<i64> {
    let (is_negative, magnitude) = match digits {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, digits),
    };
    match magnitude {
        [] => return None,
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    magnitude.iter().try_fold(0_i64, |value, digit| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        let value = value.checked_mul(10)?;
        if is_negative { value.checked_sub(digit) } else { value.checked_add(digit) }
    })
}

/// The digits of a number, without an allocation.
pub(crate) struct Digits {
    bytes: [u8; 20],
    from: usize,
}

impl Digits {
    pub(crate) fn of(number: i64) -> Digits {
        let (mut bytes, mut from, mut rest) = ([0; 20], 20, number.unsigned_abs());
        loop {
            from -= 1;
            bytes[from] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if number < 0 {
            from -= 1;
            bytes[from] = b'-';
        }
        Digits { bytes, from }
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_have_one_form() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN, 907] {
            let digits = Digits::of(number);
            assert_eq!(std::str::from_utf8(digits.as_bytes()).unwrap(), number.to_string());
            assert_eq!(parse_i64(digits.as_bytes()), Some(number));
        }
        for wrong in
            ["", "-", "+1", "01", "-0", "1 ", " 1", "1a", "9223372036854775808", "-9223372036854775809", "\u{663}"]
        {
            assert_eq!(parse_i64(wrong.as_bytes()), None, "{wrong}");
        }
    }
}

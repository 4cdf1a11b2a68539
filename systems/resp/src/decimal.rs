//! Numbers with a fraction as Redis computes with them: the 80 bits of the x87 (`long double`), written with up to seventeen digits
//! behind the point.

use rustc_apfloat::Float;
use rustc_apfloat::ieee::X87DoubleExtended;

/// The longest number that a client may write, in bytes.
pub(crate) const LONGEST: usize = 5119;
/// Digits behind the point.
const FRACTION: usize = 17;
/// Digits of a number near the bound of what 80 bits can hold, with room.
const ALL_DIGITS: usize = 5200;

/// A number from text; infinity counts, NaN does not.
pub(crate) fn parse(text: &[u8]) -> Option<X87DoubleExtended> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= LONGEST)?;
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text).to_ascii_lowercase();
    if unsigned == "inf" || unsigned == "infinity" {
        return Some(if text.starts_with('-') { -X87DoubleExtended::INFINITY } else { X87DoubleExtended::INFINITY });
    }
    // The crate takes other words, too.
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.') || !has_exponent_digits(&unsigned) {
        return None;
    }
    let unsigned_value: X87DoubleExtended = unsigned.parse().ok()?;
    let value = if text.starts_with('-') { -unsigned_value } else { unsigned_value };
    (!value.is_nan()).then_some(value)
}

/// Digits only, one point at most, and digits behind an exponent's sign.
fn has_exponent_digits(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let points = mantissa.bytes().filter(|byte| *byte == b'.').count();
    let is_number = |text: &str| (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits > 0 && points <= 1 && digits + points == mantissa.len() && exponent.is_none_or(is_number)
}

/// The sum as text; `None` if it is no number.
pub(crate) fn sum(one: X87DoubleExtended, other: X87DoubleExtended) -> Option<String> {
    let sum = (one + other).value;
    if !sum.is_finite() {
        return None;
    }
    Some(rounded(&format!("{sum:.ALL_DIGITS$}")))
}

/// Decimal digits without an error, or with an exponent, rounded to [`FRACTION`] digits behind the point; half to even.
fn rounded(exact: &str) -> String {
    let (is_negative, exact) = exact.strip_prefix('-').map_or((false, exact), |exact| (true, exact));
    let (mantissa, exponent) = exact.split_once(['e', 'E']).unwrap_or((exact, "0"));
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    // Digits before the point.
    let mut point = whole.len() as i64 + exponent;
    while point < 1 {
        digits.insert(0, b'0');
        point += 1;
    }
    let (point, wanted) = (point as usize, point as usize + FRACTION);
    let is_up = match digits.get(wanted) {
        Some(next) => {
            let is_half = *next == b'5' && digits[wanted + 1..].iter().all(|digit| *digit == b'0');
            if is_half { !(digits[wanted - 1] - b'0').is_multiple_of(2) } else { *next >= b'5' }
        }
        None => false,
    };
    digits.resize(wanted, b'0');
    let mut carried = is_up;
    for digit in digits.iter_mut().rev() {
        if !carried {
            break;
        }
        (*digit, carried) = if *digit == b'9' { (b'0', true) } else { (*digit + 1, false) };
    }
    let mut text: String = digits.iter().map(|digit| char::from(*digit)).collect();
    text.insert(point, '.');
    if carried {
        text.insert(0, '1');
    }
    let text = text.trim_end_matches('0').trim_end_matches('.').trim_start_matches('0');
    match (text, is_negative) {
        ("", _) => "0".into(),
        (text, _) => {
            let zero = if text.starts_with('.') { "0" } else { "" };
            format!("{}{zero}{text}", if is_negative { "-" } else { "" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(one: &str, other: &str) -> Option<String> {
        sum(parse(one.as_bytes())?, parse(other.as_bytes())?)
    }

    #[test]
    fn sums_are_those_of_redis() {
        for (one, other, wanted) in [
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0", "-5", "-5"),
            ("3.0", "1.1", "4.1"),
            ("1e3", "0.001", "1000.001"),
            ("1", "-1", "0"),
            ("0", "1e-18", "0"),
            ("123456789012345678", "1", "123456789012345679"),
            (".5", "5.", "5.5"),
            ("-0.25", "-0.25", "-0.5"),
        ] {
            assert_eq!(add(one, other).as_deref(), Some(wanted), "{one} + {other}");
        }
        assert_eq!(add("1e4932", "inf"), None);
        for wrong in ["", "a", "1a", " 1", "1 ", "nan", "1e", "e1", "1.2.3", "0x10", "--1", "1e999999"] {
            assert!(parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
    }
}

//! The text form of a plan: parsing and printing.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::plan::FaultPlan;

/// The reason why a text is not a fault plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PlanError {
    /// A part without an equals sign.
    #[error("`{part}` is not a fault: write name=value, for example loss=0.05")]
    NotAPair {
        /// The part as written.
        part: String,
    },
    /// A name of no known fault.
    #[error("`{key}` is not a fault: known are seed, loss, dup, reorder, corrupt, rnr, delay, jitter and delayed")]
    UnknownKey {
        /// The name as written.
        key: String,
    },
    /// The same name twice.
    #[error("`{key}` is given twice")]
    Repeated {
        /// The name.
        key: String,
    },
    /// The value is not a number, or not between zero and one.
    #[error("`{key}={value}`: a probability is a number from 0 to 1")]
    BadProbability {
        /// The name.
        key: String,
        /// The value as written.
        value: String,
    },
    /// The value is not a time.
    #[error("`{key}={value}`: a time is a number with a unit: 250ns, 100us, 1.5ms or 1s")]
    BadDuration {
        /// The name.
        key: String,
        /// The value as written.
        value: String,
    },
    /// The value is not a seed.
    #[error("`seed={value}`: a seed is a whole number below 2^64, decimal or 0x and hexadecimal")]
    BadSeed {
        /// The value as written.
        value: String,
    },
}

/// Units of time in nanoseconds, largest first. The parser tries them in reverse order, since all of them end
/// with `s`.
const UNITS: [(&str, u64); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

impl FromStr for FaultPlan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<FaultPlan, PlanError> {
        let mut plan = FaultPlan::default();
        let mut seen = Vec::new();
        if text.trim().is_empty() {
            return Ok(plan);
        }
        for part in text.split(',') {
            let (key, value) = pair(part)?;
            if seen.contains(&key) {
                return Err(PlanError::Repeated { key: key.into() });
            }
            set(&mut plan, key, value)?;
            seen.push(key);
        }
        Ok(plan)
    }
}

impl fmt::Display for FaultPlan {
    /// Writes the seed and all values that differ from the default; the text parses back to the same plan.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = FaultPlan::default();
        write!(f, "seed={}", self.seed)?;
        for (key, value, usual) in [
            ("loss", self.loss, usual.loss),
            ("dup", self.dup, usual.dup),
            ("reorder", self.reorder, usual.reorder),
            ("corrupt", self.corrupt, usual.corrupt),
            ("rnr", self.rnr, usual.rnr),
            ("delayed", self.delayed, usual.delayed),
        ] {
            if value != usual {
                write!(f, ",{key}={value}")?;
            }
        }
        for (key, value) in [("delay", self.delay), ("jitter", self.jitter)] {
            if !value.is_zero() {
                write!(f, ",{key}={}", ShortTime(value))?;
            }
        }
        Ok(())
    }
}

fn pair(part: &str) -> Result<(&str, &str), PlanError> {
    let part = part.trim();
    let Some((key, value)) = part.split_once('=') else {
        return Err(PlanError::NotAPair { part: part.into() });
    };
    Ok((key.trim(), value.trim()))
}

fn set(plan: &mut FaultPlan, key: &str, value: &str) -> Result<(), PlanError> {
    match key {
        "seed" => plan.seed = seed(value)?,
        "loss" => plan.loss = probability(key, value)?,
        "dup" => plan.dup = probability(key, value)?,
        "reorder" => plan.reorder = probability(key, value)?,
        "corrupt" => plan.corrupt = probability(key, value)?,
        "rnr" => plan.rnr = probability(key, value)?,
        "delayed" => plan.delayed = probability(key, value)?,
        "delay" => plan.delay = duration(key, value)?,
        "jitter" => plan.jitter = duration(key, value)?,
        _ => return Err(PlanError::UnknownKey { key: key.into() }),
    }
    Ok(())
}

fn seed(value: &str) -> Result<u64, PlanError> {
    let parsed = match value.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => value.parse(),
    };
    parsed.map_err(|_| PlanError::BadSeed { value: value.into() })
}

fn probability(key: &str, value: &str) -> Result<f64, PlanError> {
    match value.parse::<f64>() {
        // Adding zero turns -0 into 0.
        Ok(p) if (0.0..=1.0).contains(&p) => Ok(p + 0.0),
        _ => Err(PlanError::BadProbability { key: key.into(), value: value.into() }),
    }
}

fn duration(key: &str, value: &str) -> Result<Duration, PlanError> {
    let bad = || PlanError::BadDuration { key: key.into(), value: value.into() };
    let split = UNITS.iter().rev().find_map(|(unit, unit_ns)| Some((value.strip_suffix(unit)?.trim_end(), *unit_ns)));
    let (number, unit_ns) = split.ok_or_else(bad)?;
    nanoseconds(number, unit_ns).map(Duration::from_nanos).ok_or_else(bad)
}

/// `number` (digits, perhaps with a point) times the unit; fractions of a nanosecond are cut off.
fn nanoseconds(number: &str, unit_ns: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let mut total = whole.parse::<u64>().ok()?.checked_mul(unit_ns)?;
    let mut place_ns = unit_ns;
    for digit in fraction.bytes() {
        place_ns /= 10;
        total = total.checked_add(u64::from(digit - b'0') * place_ns)?;
    }
    Some(total)
}

/// A time in the largest unit in which it is a whole number.
struct ShortTime(Duration);

impl fmt::Display for ShortTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0.as_nanos();
        let exact = UNITS.iter().find(|(_, unit_ns)| ns.is_multiple_of(u128::from(*unit_ns)));
        let (unit, unit_ns) = exact.unwrap_or(&("ns", 1));
        write!(f, "{}{unit}", ns / u128::from(*unit_ns))
    }
}

#[cfg(test)]
mod tests;

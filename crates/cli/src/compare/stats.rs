//! Statistics over several rounds of one figure.

/// Median and quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) median: f64,
    /// The first quartile.
    pub(super) lower: f64,
    /// The third quartile.
    pub(super) upper: f64,
}

impl Summary {
    /// The summary of these figures; `None` if there are none.
    pub(super) fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| quantile(&sorted, part);
        Some(Summary { median: at(0.5)?, lower: at(0.25)?, upper: at(0.75)? })
    }
}

/// The value below which `part` of the sorted values lie, interpolated between two of them
/// (R's type 7).
fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let place = part * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

/// The median; `None` without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    Summary::of(values).map(|summary| summary.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_quartiles_lie_between_the_figures() {
        let of = |values: &[f64]| Summary::of(values).map(|s| (s.lower, s.median, s.upper));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[7.0]), Some((7.0, 7.0, 7.0)));
        assert_eq!(of(&[4.0, 1.0]), Some((1.75, 2.5, 3.25)));
        assert_eq!(of(&[5.0, 1.0, 4.0, 2.0, 3.0]), Some((2.0, 3.0, 4.0)));
        assert_eq!(median(&[1.0, 1000.0, 2.0]), Some(2.0));
    }
}

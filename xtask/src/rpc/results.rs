//! The figures of all rounds.

use std::collections::BTreeMap;
use std::path::Path;

use super::figure::RpcFigure;
use super::rows::RpcRow;

/// Failures after which a figure is not tried again.
const ATTEMPTS: usize = 2;

/// Median and range of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FigureRange {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// All figures so far, and the reasons of those that are missing.
#[derive(Default)]
pub(super) struct RpcResults {
    figures: BTreeMap<RpcFigure, Vec<f64>>,
    failures: BTreeMap<RpcFigure, Vec<String>>,
}

impl RpcResults {
    pub(super) fn add(&mut self, figure: &RpcFigure, value: f64) {
        self.figures.entry(figure.clone()).or_default().push(value);
    }

    pub(super) fn fail(&mut self, figure: &RpcFigure, why: String) {
        self.failures.entry(figure.clone()).or_default().push(why);
    }

    /// Measures the figures of all rows once per round, so that other load of the machine affects all alike.
    pub(super) fn fill(&mut self, rows: &[RpcRow], rounds: usize, programs: &Path) {
        for round in 1..=rounds {
            eprintln!("round {round} of {rounds}");
            for (figure, seconds) in rows.iter().flat_map(RpcRow::figures) {
                let done = self.figures.get(figure).map_or(0, Vec::len);
                let failed = self.failures.get(figure).map_or(0, Vec::len);
                if done + failed >= round || failed >= ATTEMPTS {
                    continue;
                }
                match figure.measure(programs, seconds) {
                    Ok(value) => self.add(figure, value),
                    Err(why) => {
                        eprintln!("  {}: {why}", figure.command());
                        self.fail(figure, why);
                    }
                }
            }
        }
    }

    /// Median and range, if there is a figure.
    pub(super) fn range(&self, figure: &RpcFigure) -> Option<FigureRange> {
        let mut values = self.figures.get(figure)?.clone();
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(FigureRange { median: (low + high) / 2.0, least, most })
    }

    /// The last reason for which a figure is missing.
    pub(super) fn failure(&self, figure: &RpcFigure) -> Option<&str> {
        self.failures.get(figure)?.last().map(String::as_str)
    }

    /// The best of several figures of one kind, by the median.
    pub(super) fn best<'a>(&self, figures: &'a [RpcFigure]) -> Option<(&'a RpcFigure, FigureRange)> {
        let ranges = figures.iter().filter_map(|figure| Some((figure, self.range(figure)?)));
        ranges.reduce(|one, other| {
            let is_better =
                if one.0.pick.is_cost() { other.1.median < one.1.median } else { other.1.median > one.1.median };
            if is_better { other } else { one }
        })
    }
}

//! Collects figures and failures, round by round.

use std::collections::BTreeMap;

use super::measure::Measure;
use super::stats::Summary;
use super::tools::{self, Effort};

/// The number of failures after which a figure is not tried again.
const ATTEMPTS: usize = 2;

/// All figures so far, and the failures.
#[derive(Default)]
pub(super) struct Results {
    figures: BTreeMap<Measure, Vec<f64>>,
    failures: BTreeMap<Measure, Vec<String>>,
}

impl Results {
    /// Adds a figure.
    pub(super) fn add(&mut self, measure: Measure, figure: f64) {
        self.figures.entry(measure).or_default().push(figure);
    }

    /// Median and quartiles of a measurement's figures, if there are any.
    pub(super) fn summary(&self, measure: &Measure) -> Option<Summary> {
        Summary::of(self.figures.get(measure)?)
    }

    /// Measures each of `plan` until it has `rounds` figures. Each has one turn per round, so other
    /// load of the machine affects all of them alike.
    pub(super) fn fill(&mut self, plan: &[Measure], rounds: usize, effort: &Effort, title: &str) {
        for round in 1..=rounds {
            eprintln!("{title}: round {round} of {rounds}");
            for measure in plan {
                if self.figures.get(measure).map_or(0, Vec::len) < round && self.failed(measure) < ATTEMPTS {
                    self.measure(measure, effort);
                }
            }
        }
    }

    fn measure(&mut self, measure: &Measure, effort: &Effort) {
        match tools::measure(measure, effort) {
            Ok(figure) if figure.is_finite() && figure > 0.0 => self.add(*measure, figure),
            Ok(figure) => self.fail(*measure, format!("the figure is {figure}")),
            Err(why) => self.fail(*measure, why),
        }
    }

    pub(super) fn fail(&mut self, measure: Measure, why: String) {
        eprintln!("  {}, {}: {why}", measure.contender_name(), measure.what());
        self.failures.entry(measure).or_default().push(why);
    }

    fn failed(&self, measure: &Measure) -> usize {
        self.failures.get(measure).map_or(0, Vec::len)
    }

    /// The failures: their number, the number of attempts, and the last reason.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        self.failures.iter().filter_map(|(measure, failures)| {
            let attempts = failures.len() + self.figures.get(measure).map_or(0, Vec::len);
            let (who, what, failed) = (measure.contender_name(), measure.what(), failures.len());
            Some(format!("{who}, {what}: {failed} of {attempts} attempts failed: {}", failures.last()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::measure::{Contender, Quantity, TestVerb};

    #[test]
    fn figures_and_failures_are_kept_apart() {
        let measure = Measure::new(Contender::UcxShm, Quantity::Latency, TestVerb::Send, 8);
        let mut results = Results::default();
        assert_eq!(results.summary(&measure), None);
        results.add(measure, 100.0);
        results.add(measure, 300.0);
        results.fail(measure, "no such program".into());
        assert_eq!(results.summary(&measure).map(|summary| summary.median), Some(200.0));
        let failures: Vec<String> = results.failures().collect();
        assert_eq!(failures.len(), 1);
        assert!(failures[0].ends_with("SEND 8 B, one way: 1 of 3 attempts failed: no such program"), "{failures:?}");
    }
}

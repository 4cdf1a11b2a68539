//! Figures of several rounds, and the goals they are held against.

/// The medians of one figure and of its peer.
pub(super) struct Row {
    /// The goal's number.
    pub(super) id: &'static str,
    /// What was done.
    pub(super) what: String,
    /// Whom it is compared with.
    pub(super) peer: String,
    /// The peer's figures, one a round.
    pub(super) theirs: Vec<f64>,
    /// Ours.
    pub(super) ours: Vec<f64>,
    pub(super) unit: fn(f64) -> String,
    pub(super) goal: Goal,
}

/// What the ratio ours / theirs should be.
#[derive(Clone, Copy)]
pub(super) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Row {
    pub(super) fn ratio(&self) -> f64 {
        median(&self.ours) / median(&self.theirs)
    }

    pub(super) fn met(&self) -> bool {
        match self.goal {
            Goal::AtMost(goal) => self.ratio() <= goal,
            Goal::AtLeast(goal) => self.ratio() >= goal,
        }
    }

    pub(super) fn cells(&self) -> Vec<String> {
        let (sign, goal) = match self.goal {
            Goal::AtMost(goal) => ("≤", goal),
            Goal::AtLeast(goal) => ("≥", goal),
        };
        vec![
            self.id.to_string(),
            self.what.clone(),
            with_spread(&self.ours, self.unit),
            self.peer.clone(),
            with_spread(&self.theirs, self.unit),
            format!("{:.2} ×", self.ratio()),
            format!("{sign} {goal} ×"),
            if self.met() { "yes" } else { "not yet" }.to_string(),
        ]
    }
}

/// The names of [`Row::cells`].
pub(super) const HEADER: [&str; 8] =
    ["goal", "Longarm", "median (spread)", "beside", "median (spread)", "ratio", "goal is", "reached"];

fn with_spread(values: &[f64], unit: fn(f64) -> String) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{} ({} to {})", unit(median(values)), unit(least), unit(most))
}

/// The middle of the sorted values; of an even number the lower middle. NaN if there are none.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.is_empty() { f64::NAN } else { sorted[(sorted.len() - 1) / 2] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_hold_ratios_of_medians() {
        let row = |goal| Row {
            id: "W0",
            what: String::new(),
            peer: String::new(),
            theirs: vec![1.0, 2.0, 100.0],
            ours: vec![5.0, 3.0, 4.0],
            unit: |v| v.to_string(),
            goal,
        };
        assert_eq!(row(Goal::AtMost(2.0)).ratio(), 2.0);
        assert!(row(Goal::AtMost(2.0)).met() && row(Goal::AtLeast(2.0)).met());
        assert!(!row(Goal::AtMost(1.9)).met() && !row(Goal::AtLeast(2.1)).met());
        assert!(median(&[]).is_nan());
    }
}

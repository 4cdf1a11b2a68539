//! The table and the plots as Markdown.

use std::fmt::Write;

use super::goals::{Goal, GoalRow};
use super::results::Results;
use super::scale::IdleCost;
use super::series::Figure;
use super::stats::Summary;

/// The headings of [`cells`].
pub(super) const HEADER: [&str; 9] = [
    "target",
    "what",
    "Longarm",
    "median (quartiles)",
    "beside",
    "median (quartiles)",
    "ratio",
    "target is",
    "reached",
];

/// The contents of the page.
pub(super) struct ComparePage<'a> {
    pub(super) rows: &'a [GoalRow],
    pub(super) results: &'a Results,
    pub(super) idle: Option<&'a IdleCost>,
    pub(super) figures: &'a [Figure],
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    pub(super) notes: &'a [String],
}

/// A row's cells.
pub(super) fn cells(row: &GoalRow, results: &Results) -> [String; 9] {
    let ours = results.summary(&row.ours);
    let theirs = row.theirs.and_then(|theirs| results.summary(&theirs));
    let ratio = ours.zip(theirs).map(|(ours, theirs)| ours.median / theirs.median);
    let reached = row.goal.is_reached(ours.map(|s| s.median), theirs.map(|s| s.median));
    let spread = |summary: Option<Summary>| summary.map_or("not measured".into(), |s| spread(row, s));
    [
        row.id.into(),
        row.ours.what(),
        row.ours.contender_name(),
        spread(ours),
        row.theirs.map_or(String::new(), |theirs| theirs.contender_name()),
        row.theirs.map_or(String::new(), |_| spread(theirs)),
        ratio.map_or(String::new(), |ratio| format!("{ratio:.2} ×")),
        row.goal.words(&row.ours),
        match (row.goal, reached) {
            (Goal::Shown, _) => String::new(),
            (_, Some(true)) => "yes".into(),
            (_, Some(false)) => "**no**".into(),
            (_, None) => "unknown".into(),
        },
    ]
}

fn spread(row: &GoalRow, Summary { median, lower, upper }: Summary) -> String {
    let [median, lower, upper] = [median, lower, upper].map(|value| row.ours.show(value));
    // Show the unit once where all three have the same.
    match (median.split_once(' '), lower.split_once(' '), upper.split_once(' ')) {
        (Some((_, unit)), Some((low, a)), Some((high, b))) if unit == a && unit == b => {
            format!("{median} ({low} to {high})")
        }
        _ => format!("{median} ({lower} to {upper})"),
    }
}

/// The cells of the cost of idle queue pairs.
pub(super) fn idle_cells(idle: &IdleCost) -> [[String; 9]; 2] {
    let verdict = |reached| if reached { "yes" } else { "**no**" };
    let row = |id: &str, what: String, figure: String, goal: &str, reached| {
        [id, &what, "Longarm", &figure, "", "", "", goal, verdict(reached)].map(String::from)
    };
    let percent = idle.cpu_ns_per_second as f64 / 1e7;
    [
        row(
            "C1",
            format!("memory of an idle QP, of {}", idle.qps),
            format!("{} bytes", idle.bytes_per_qp),
            "≤ 4096 bytes",
            idle.bytes_per_qp <= 4096,
        ),
        row(
            "C2",
            format!("CPU of a process with {} idle QPs", idle.qps),
            format!("{percent:.3} % of a core"),
            "not measurable (< 0.1 %)",
            idle.cpu_ns_per_second < 1_000_000,
        ),
    ]
}

impl ComparePage<'_> {
    /// The whole page as Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "Written by `cargo xtask compare`: run it on your machine. The two sides of a pair are pinned to different\n\
             cores. All contenders take turns; figures are the median of {} rounds of about {} s, with the\n\
             quartiles. Machine: {}.\n\n",
            self.rounds,
            self.seconds,
            machine()
        );
        let _ = writeln!(text, "| {} |\n|{}", HEADER.join(" | "), "---|".repeat(HEADER.len()));
        for row in self.rows {
            let _ = writeln!(text, "| {} |", cells(row, self.results).join(" | "));
        }
        for cells in self.idle.iter().flat_map(|idle| idle_cells(idle)) {
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        for figure in self.figures {
            let _ = write!(text, "\n![{0}](performance-{0}.svg)\n\n{1}", figure.name, figure.table(self.results));
        }
        let failures = self.results.failures().map(|failure| format!("Not measured: {failure}."));
        let notes: Vec<String> = self.notes.iter().cloned().chain(failures).collect();
        if !notes.is_empty() {
            let _ = writeln!(text, "\n- {}", notes.join("\n- "));
        }
        text
    }
}

/// A description of this machine.
pub(super) fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown CPU", |(_, m)| m);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores, Linux {}", kernel.split('-').next().unwrap_or("").trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::goals;
    use crate::compare::measure::{Contender, Measure, MessagePath, Quantity, TestVerb};

    fn row(goal: Goal) -> GoalRow {
        let of = |contender| Measure::new(contender, Quantity::Latency, TestVerb::Send, 8);
        GoalRow { id: "S1", ours: of(Contender::Api(MessagePath::Host)), theirs: Some(of(Contender::UcxShm)), goal }
    }

    #[test]
    fn a_row_tells_who_wins() {
        let (row, mut results) = (row(Goal::AtMost(1.5)), Results::default());
        for figure in [140.0, 150.0, 160.0] {
            results.add(row.ours, figure);
        }
        results.add(row.theirs.unwrap(), 90.0);
        let cells = cells(&row, &results);
        assert_eq!(
            cells.each_ref().map(String::as_str),
            [
                "S1",
                "SEND 8 B, one way",
                "Longarm, same host",
                "150 ns (145 to 155)",
                "UCX shared memory, `tag_lat`",
                "90.0 ns (90.0 to 90.0)",
                "1.67 ×",
                "≤ 1.5 ×",
                "**no**"
            ]
        );
    }

    #[test]
    fn missing_figures_are_reported() {
        let (row, mut results) = (row(Goal::AtMost(1.5)), Results::default());
        results.add(row.ours, 150.0);
        results.fail(row.theirs.unwrap(), "ucx_perftest is not installed".into());
        let rows = [row];
        let idle = IdleCost { qps: 10, bytes_per_qp: 5000, cpu_ns_per_second: 10 };
        let page = ComparePage {
            rows: &rows,
            results: &results,
            idle: Some(&idle),
            figures: &[],
            rounds: 3,
            seconds: 0.5,
            notes: &["A note.".into()],
        };
        let text = page.markdown();
        assert!(text.contains("| not measured |  | ≤ 1.5 × | unknown |"), "{text}");
        assert!(text.contains("| C1 | memory of an idle QP, of 10 | Longarm | 5000 bytes |"), "{text}");
        assert!(text.contains("- A note.\n- Not measured: UCX shared memory, `tag_lat`"), "{text}");
        assert!(text.lines().filter(|line| line.starts_with('|')).all(|line| line.matches('|').count() == 10));
    }

    #[test]
    fn all_goals_have_cells() {
        let results = Results::default();
        for row in goals::rows(100).iter().chain(&goals::guest_rows()) {
            assert!(cells(row, &results)[..3].iter().all(|cell| !cell.is_empty()));
        }
    }
}

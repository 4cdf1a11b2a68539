//! The page docs/rpc-results.md.

use std::fmt::Write;

use super::figure::RpcFigure;
use super::options::RpcOptions;
use super::results::RpcResults;
use super::rows::{RowGoal, RpcRow};

const INTRODUCTION: &str = "\
# Results of longarm-rpc

`cargo xtask compare --rpc` writes this page. Each figure is the median of several rounds, with its range. In each round all
programs run in turn, client and server on a core each. The best way counts for a row, and the row names it. The second
table has all ways. [docs/rpc.md](rpc.md) says which way to use when.
";

/// A row with its figures.
struct RowOutcome {
    ours: String,
    beside: String,
    value: String,
    is_met: Option<bool>,
}

/// The page as text.
pub(super) fn page(rows: &[RpcRow], results: &RpcResults, options: &RpcOptions) -> String {
    let mut text = format!("{INTRODUCTION}\n{}\n\n", run_words(options));
    let outcomes: Vec<RowOutcome> = rows.iter().map(|row| outcome(row, results)).collect();
    text += &summary(rows, &outcomes);
    text += "\n| target | what | longarm-rpc | beside | figure | goal | met |\n|---|---|---|---|---:|---:|---|\n";
    for (row, outcome) in rows.iter().zip(&outcomes) {
        let RowOutcome { ours, beside, value, is_met } = outcome;
        let (goal, met) = (goal_words(row), is_met.map_or("not measured", |met| if met { "yes" } else { "**no**" }));
        let _ = writeln!(text, "| {} | {} | {ours} | {beside} | {value} | {goal} | {met} |", row.id, row.what);
    }
    text + &every_way(rows, results)
}

fn run_words(options: &RpcOptions) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').nth(1).unwrap_or("unknown");
    format!(
        "The last run: {} round(s) of {} s. {model}, {cores} processors; the load of the last five minutes was {load}.",
        options.rounds, options.seconds
    )
}

/// The targets that are met, those that are not, and those without figures.
fn summary(rows: &[RpcRow], outcomes: &[RowOutcome]) -> String {
    let mut targets: Vec<&str> = rows.iter().map(|row| row.id).collect();
    targets.dedup();
    let of = |target: &str| -> Vec<Option<bool>> {
        rows.iter().zip(outcomes).filter(|(row, _)| row.id == target).map(|(_, outcome)| outcome.is_met).collect()
    };
    let (mut met, mut missed, mut open) = (Vec::new(), Vec::new(), Vec::new());
    for target in targets {
        let all = of(target);
        if all.contains(&Some(false)) {
            let reached = all.iter().filter(|met| **met == Some(true)).count();
            missed.push(format!("{target} ({reached} of {} rows)", all.len()));
        } else if all.contains(&None) {
            open.push(target.to_string());
        } else {
            met.push(target.to_string());
        }
    }
    let words = |list: &[String]| if list.is_empty() { "none".into() } else { list.join(", ") };
    format!(
        "- **Met**: {}.\n- **Not met**: {}.\n- **Not measured in all rows**: {}.\n",
        words(&met),
        words(&missed),
        words(&open)
    )
}

fn outcome(row: &RpcRow, results: &RpcResults) -> RowOutcome {
    let best = results.best(&row.ours);
    let beside = row.beside.as_ref();
    let other = beside.and_then(|beside| Some((beside, results.range(&beside.figure)?)));
    let value = best
        .as_ref()
        .and_then(|(_, range)| row.goal.value(range.median, other.map(|(beside, range)| range.median * beside.times)));
    let ours = best.map_or("not measured".into(), |(figure, _)| format!("{}: {}", figure.name, show(figure, results)));
    let beside = beside.map_or(String::new(), |beside| {
        let times = if beside.times == 1.0 { String::new() } else { format!("{} × ", beside.times) };
        format!("{times}{}: {}", beside.figure.name, show(&beside.figure, results))
    });
    let shown = value.map_or(String::new(), |value| match row.goal {
        RowGoal::Below(_) | RowGoal::Above(_) => row.ours[0].pick.show(value),
        _ => format!("{value:.2} ×"),
    });
    RowOutcome { ours, beside, value: shown, is_met: value.map(|value| row.goal.is_met(value)) }
}

/// Median and range, or the reason why there is none.
fn show(figure: &RpcFigure, results: &RpcResults) -> String {
    let Some(range) = results.range(figure) else {
        return format!("not measured: {}", results.failure(figure).unwrap_or("no run").replace('|', "/"));
    };
    let pick = figure.pick;
    format!("{} ({} – {})", pick.show(range.median), pick.show(range.least), pick.show(range.most))
}

fn goal_words(row: &RpcRow) -> String {
    let value = |value| row.ours[0].pick.show(value);
    match row.goal {
        RowGoal::AtMost(most) => format!("≤ {most} ×"),
        RowGoal::AtLeast(least) => format!("≥ {least} ×"),
        RowGoal::Faster(least) => format!("≥ {least} × faster"),
        RowGoal::Below(most) => format!("≤ {}", value(most)),
        RowGoal::Above(least) => format!("≥ {}", value(least)),
    }
}

/// All figures of all ways, and the commands.
fn every_way(rows: &[RpcRow], results: &RpcResults) -> String {
    let mut text = "\n## Every way\n\n| target | what | way | figure | command |\n|---|---|---|---|---|\n".to_string();
    let mut shown: Vec<&RpcFigure> = Vec::new();
    for row in rows {
        for (figure, _) in row.figures() {
            if !shown.contains(&figure) {
                shown.push(figure);
                let (value, command) = (show(figure, results), figure.command());
                let _ = writeln!(text, "| {} | {} | {} | {value} | {command} |", row.id, row.what, figure.name);
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::rows::rows;
    use super::*;

    #[test]
    fn the_page_says_which_targets_are_met() {
        let options = RpcOptions { targets: vec!["R1", "R2", "R3"], ..RpcOptions::parse(&[]).unwrap() };
        let rows = rows(&options);
        let mut results = RpcResults::default();
        for (at, row) in rows.iter().enumerate().filter(|(_, row)| row.id != "R3") {
            let beside = row.beside.as_ref().expect("rows of latency compare");
            results.add(&beside.figure, if beside.times == 2.0 { 500.0 } else { 30_000.0 });
            let (ring, herd) = (&row.ours[0], &row.ours[1]);
            // The best way counts.
            results.add(ring, if row.id == "R1" { 1_000.0 } else { 10_000.0 });
            results.add(ring, 1_100.0 + at as f64);
            results.fail(herd, "refused | by the server".into());
        }
        let page = page(&rows, &results, &options);
        assert!(page.contains("- **Met**: R1.\n- **Not met**: R2"), "{page}");
        assert!(page.contains("- **Not measured in all rows**: R3."), "{page}");
        assert!(page.contains("| 2 × WRITE, one way: 500 ns (500 ns – 500 ns) |"), "{page}");
        assert!(page.contains("| herd | not measured: refused / by the server |"), "{page}");
        assert!(page.contains("| ≥ 20 × faster | yes |") && page.contains("| **no** |"), "{page}");
    }
}

//! The goals as Markdown, with a chart.

use std::fmt::Write;
use std::path::Path;

use super::rows::{HEADER, Row};
use super::scale::IdleCost;
use crate::error::Error;
use crate::report::{Bar, bars};

/// Writes `performance.md` and `performance.svg` into `dir`.
pub(super) fn write(dir: &Path, rows: &[Row], idle: &IdleCost, notes: &[String], rounds: u32) -> Result<(), Error> {
    std::fs::create_dir_all(dir).map_err(|e| Error::File(dir.display().to_string(), e))?;
    let put = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).map_err(|e| Error::File(path.display().to_string(), e))
    };
    put("performance.svg", chart(rows)?)?;
    put("performance.md", page(rows, idle, notes, rounds))
}

/// How far each goal is reached: 1 is the goal, longer is better.
fn chart(rows: &[Row]) -> Result<String, Error> {
    let bar = |row: &Row| {
        let reached = match row.goal {
            super::rows::Goal::AtMost(goal) => goal / row.ratio(),
            super::rows::Goal::AtLeast(goal) => row.ratio() / goal,
        };
        Bar {
            name: format!("{} {}", row.id, row.what),
            value: reached,
            label: format!("{reached:.2}"),
            ours: row.met(),
        }
    };
    let rows: Vec<Bar> = rows.iter().map(bar).collect();
    bars("How far each goal is reached (1 is the goal, more is better)", &rows).map_err(Error::Usage)
}

fn page(rows: &[Row], idle: &IdleCost, notes: &[String], rounds: u32) -> String {
    let mut text = format!(
        "# Performance\n\n\
         Written by `cargo run --release -- targets`: run it on your machine. Both processes of a pair are pinned to\n\
         different cores; peers and Longarm take turns; each figure is the median of {rounds} rounds, with the smallest\n\
         and the largest. Machine: {}.\n\n",
        machine()
    );
    let _ = writeln!(text, "| {} |\n|{}", HEADER.join(" | "), "---|".repeat(HEADER.len()));
    for row in rows {
        let _ = writeln!(text, "| {} |", row.cells().join(" | "));
    }
    let _ = writeln!(
        text,
        "| C1 | memory of an idle QP (of {}) | {} bytes | | | | ≤ 4096 bytes | {} |",
        idle.qps,
        idle.bytes_per_qp,
        if idle.bytes_per_qp <= 4096 { "yes" } else { "not yet" }
    );
    let _ = writeln!(
        text,
        "| C2 | CPU of a process with {} idle QPs | {} | | | | not measurable | {} |",
        idle.qps,
        format_args!("{:.3} % of a core", idle.cpu_ns_per_second as f64 / 1e7),
        if idle.cpu_ns_per_second < 1_000_000 { "yes" } else { "not yet" }
    );
    text.push_str("\n![How far each goal is reached](performance.svg)\n");
    for note in notes {
        let _ = write!(text, "\n{note}\n");
    }
    text
}

fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown CPU", |(_, m)| m);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores, Linux {}", kernel.split('-').next().unwrap_or("").trim())
}

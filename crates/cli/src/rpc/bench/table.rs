//! The results as a table.

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::figures::{BenchLine, CallFigures};
use crate::report::{count_per_second, nanoseconds, size, size_rounded};

const HEADER: [&str; 9] = ["way", "request", "reply", "clients", "p50", "p99", "p99.9", "calls", "failed"];

/// Prints the results of calls as a table, and the others below it.
pub(super) fn print(lines: &[BenchLine]) {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(HEADER);
    let mut notes = Vec::new();
    for line in lines {
        match line {
            BenchLine::Calls(figures) => {
                table.add_row(row(figures));
            }
            BenchLine::Idle(idle) => notes.push(format!(
                "{}: {} idle clients take {} of the server's memory each",
                idle.way,
                idle.clients,
                size_rounded(idle.server_bytes_per_client)
            )),
            BenchLine::Refused { way, reason } => notes.push(format!("{way}: refused: {reason}")),
        };
    }
    println!("{table}");
    notes.iter().for_each(|note| println!("{note}"));
}

fn row(figures: &CallFigures) -> Vec<Cell> {
    let latency = &figures.latency;
    let numbers = [
        size(figures.size_bytes.into()),
        size(figures.reply_bytes.into()),
        figures.clients.to_string(),
        nanoseconds(latency.p50_ns),
        nanoseconds(latency.p99_ns),
        nanoseconds(latency.p999_ns),
        count_per_second(figures.calls_per_second),
        figures.failed.to_string(),
    ];
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    [Cell::new(figures.way.name())].into_iter().chain(numbers.map(right)).collect()
}

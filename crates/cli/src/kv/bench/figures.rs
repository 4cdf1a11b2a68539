//! Results, and the table of them.

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

use super::workload::{KeyChoice, Workload};
use crate::report::{count_per_second, nanoseconds, size};

/// The result of one measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct KvLine {
    pub(super) system: String,
    pub(super) workload: Workload,
    pub(super) keys_by: KeyChoice,
    pub(super) keys: u64,
    pub(super) size_bytes: u64,
    pub(super) clients: u16,
    /// Operations that each client has under way at a time.
    pub(super) depth: usize,
    pub(super) ops: u64,
    /// Reads that found no key.
    pub(super) missing: u64,
    pub(super) ops_per_second: f64,
    /// Times of whole batches.
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) reads_per_op: Option<f64>,
    /// Processor time of the server's process for each second: 1 is a core.
    pub(super) server_cpu: f64,
}

const HEADER: [&str; 11] =
    ["system", "YCSB", "size", "depth", "operations", "p50", "p99", "p99.9", "READs/op", "server CPU", "missing"];

/// Prints the results.
pub(super) fn print(lines: &[KvLine]) {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(HEADER);
    for line in lines {
        let numbers = [
            size(line.size_bytes),
            line.depth.to_string(),
            count_per_second(line.ops_per_second),
            nanoseconds(line.p50_ns),
            nanoseconds(line.p99_ns),
            nanoseconds(line.p999_ns),
            line.reads_per_op.map_or_else(|| "–".into(), |reads| format!("{reads:.2}")),
            format!("{:.0} %", line.server_cpu * 100.0),
            line.missing.to_string(),
        ];
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let first = [Cell::new(&line.system), Cell::new(line.workload.letter())];
        table.add_row(first.into_iter().chain(numbers.map(right)).collect::<Vec<_>>());
    }
    println!("{table}");
    println!("Times are those of a whole batch, whose operations are under way together.");
}

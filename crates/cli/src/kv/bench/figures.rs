//! Results, and the table of them.

use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};

use super::load::ServerLoad;
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
    pub(super) server_load: ServerLoad,
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
    /// PUTs by clients alone.
    pub(super) puts_alone: Option<u64>,
    /// Processor time of the server's process for each second: 1 is a core.
    pub(super) server_cpu: f64,
}

const HEADER: [&str; 13] = [
    "system",
    "YCSB",
    "size",
    "clients",
    "load",
    "depth",
    "operations",
    "p50",
    "p99",
    "p99.9",
    "READs/op",
    "server CPU",
    "missing",
];

/// Prints the results. Clients and loads are told if they differ.
pub(super) fn print(lines: &[KvLine]) {
    let (tell_clients, tell_load) = (
        lines.iter().any(|line| line.clients > 1),
        lines.iter().any(|line| line.server_load != ServerLoad::Spinning(0)),
    );
    let is_told = |title: &str| match title {
        "clients" => tell_clients,
        "load" => tell_load,
        _ => true,
    };
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(HEADER.into_iter().filter(|title| is_told(title)));
    for line in lines {
        let cells = HEADER.iter().zip(texts(line)).enumerate().filter(|(_, (title, _))| is_told(title));
        let cell = |(at, (_, text)): (usize, (&&str, String))| match at {
            0 | 1 => Cell::new(text),
            _ => Cell::new(text).set_alignment(CellAlignment::Right),
        };
        table.add_row(cells.map(cell).collect::<Vec<_>>());
    }
    println!("{table}");
    println!("Times are those of a whole batch, whose operations are under way together.");
}

/// The cells of a line, one for each title.
fn texts(line: &KvLine) -> [String; HEADER.len()] {
    [
        line.system.clone(),
        line.workload.to_string(),
        size(line.size_bytes),
        line.clients.to_string(),
        line.server_load.to_string(),
        line.depth.to_string(),
        count_per_second(line.ops_per_second),
        nanoseconds(line.p50_ns),
        nanoseconds(line.p99_ns),
        nanoseconds(line.p999_ns),
        line.reads_per_op.map_or_else(|| "–".into(), |reads| format!("{reads:.2}")),
        format!("{:.0} %", line.server_cpu * 100.0),
        line.missing.to_string(),
    ]
}

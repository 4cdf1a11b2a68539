//! The results as a plot: one line for each way.

use std::path::Path;

use longarm_rpc::Way;

use super::case::BenchMode;
use super::figures::{BenchLine, CallFigures};
use crate::error::Error;
use crate::report::{Plot, PlotLine, count_per_second, nanoseconds_precise, plot, size};

/// Writes the plot: latency or rate over the number of clients, or over the size of the request.
pub(super) fn write(file: &Path, lines: &[BenchLine], mode: BenchMode) -> Result<(), Error> {
    let all: Vec<&CallFigures> = lines.iter().filter_map(calls).collect();
    let over_clients = all.iter().any(|figures| figures.clients != all[0].clients);
    let along = |figures: &CallFigures| f64::from(if over_clients { figures.clients } else { figures.size_bytes });
    let up = |figures: &CallFigures| match mode {
        BenchMode::Rate => figures.calls_per_second,
        BenchMode::Latency => figures.latency.p50_ns as f64,
        BenchMode::Load => figures.latency.p999_ns as f64,
    };
    let line = |way: Way| {
        let own = all.iter().filter(|figures| figures.way == way);
        let points = own.map(|figures| (along(figures), up(figures))).collect();
        PlotLine { name: way.name().into(), points, ours: false, hollow: false }
    };
    let lines = Way::ALL.into_iter().map(line).filter(|line| !line.points.is_empty()).collect();
    let svg = plot(&Plot {
        title: title(mode, over_clients),
        lines,
        across: if over_clients { |clients| format!("{clients}") } else { |bytes| size(bytes as u64) },
        up: if mode == BenchMode::Rate { count_per_second } else { nanoseconds_precise },
    })
    .map_err(Error::Peer)?;
    std::fs::write(file, svg).map_err(|e| Error::File(file.display().to_string(), e))
}

fn calls(line: &BenchLine) -> Option<&CallFigures> {
    match line {
        BenchLine::Calls(figures) => Some(figures),
        BenchLine::Idle(_) | BenchLine::Refused { .. } => None,
    }
}

fn title(mode: BenchMode, over_clients: bool) -> String {
    let what = match mode {
        BenchMode::Latency => "Median time of a call",
        BenchMode::Rate => "Calls per second",
        BenchMode::Load => "Time that 99.9 % of the calls stay below",
    };
    format!("{what}, over the {}", if over_clients { "number of clients" } else { "size of the request" })
}

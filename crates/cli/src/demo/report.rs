//! The demo's results: on the terminal, and as a page with plots.

use std::path::Path;

use comfy_table::{Cell as TableCell, CellAlignment, Table, presets};
use device::Provider;

use super::compare::{Comparison, LatencyRow, RateRow};
use super::matrix::Matrix;
use crate::error::Error;
use crate::report::{Bar, HtmlPage, bars, bytes_per_second, count_per_second, nanoseconds};

/// Prints the table operation × service.
pub(super) fn print_matrix(matrix: &Matrix) {
    let mut table = new_table(&["operation", "RC", "UC", "UD"]);
    for row in matrix_rows(matrix) {
        table.add_row(row);
    }
    println!("{table}");
}

/// Prints the three comparisons.
pub(super) fn print_comparison(comparison: &Comparison) {
    let mut table = new_table(&["64 B one way", "p50", "p99"]);
    for row in &comparison.latencies {
        table.add_row(numbers([row.name.clone(), nanoseconds(row.latency.p50_ns), nanoseconds(row.latency.p99_ns)]));
    }
    println!("\n{table}");
    print_rates("bandwidth", &comparison.bandwidths, bytes_per_second);
    print_rates("64 B messages", &comparison.rates, count_per_second);
}

fn print_rates(title: &str, rows: &[RateRow], unit: fn(f64) -> String) {
    let mut table = new_table(&[title, "per second", "ratio"]);
    for row in rows {
        table.add_row(numbers([row.name.clone(), unit(row.per_second), ratio(row, rows)]));
    }
    println!("\n{table}");
}

/// The ratio to the first row, which is that of a socket.
fn ratio(row: &RateRow, rows: &[RateRow]) -> String {
    match rows.first() {
        Some(first) if row.ours && first.per_second > 0.0 => format!("{:.2} ×", row.per_second / first.per_second),
        _ => String::new(),
    }
}

/// Writes the results as an HTML page.
pub(super) fn write_page(
    path: &Path,
    matrix: &Matrix,
    comparison: Option<&Comparison>,
    on: Provider,
) -> Result<(), Error> {
    let (title, words) = match on {
        Provider::Longarm => (
            "Longarm: RDMA between two processes, over UDP",
            "Two processes on this machine, real RoCEv2 packets on UDP port 4791, no RDMA hardware, no kernel module.",
        ),
        Provider::Verbs => ("Longarm: RDMA between two processes", "Two processes on an RDMA device of the system."),
    };
    let mut page = HtmlPage::new(title);
    page.paragraph(words);
    page.heading("Every operation, verified");
    page.table(&["operation", "RC", "UC", "UD"].map(String::from), &matrix_rows(matrix));
    if let Some(comparison) = comparison {
        add_plots(&mut page, comparison)?;
    }
    std::fs::write(path, page.finish()).map_err(|e| Error::File(path.display().to_string(), e))
}

/// Writes the table of verified operations as Markdown.
pub(super) fn write_markdown(path: &Path, matrix: &Matrix) -> Result<(), Error> {
    let mut text = String::from(
        "# Compatibility\n\nWritten by `cargo xtask tables` from a run of `longarm demo --verify-only`.\n\n\
         ## Operations\n\nData of as many sizes as a field tells went over the wire between two processes and was compared at its \
         destination. A field with – means that the service has no such operation.\n\n| operation | RC | UC | UD |\n|---|---|---|---|\n",
    );
    for row in matrix_rows(matrix) {
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    std::fs::write(path, text).map_err(|e| Error::File(path.display().to_string(), e))
}

fn add_plots(page: &mut HtmlPage, comparison: &Comparison) -> Result<(), Error> {
    let latency = |row: &LatencyRow| Bar {
        name: row.name.clone(),
        value: row.latency.p50_ns as f64,
        label: nanoseconds(row.latency.p50_ns),
        ours: row.ours,
    };
    let rate = |unit: fn(f64) -> String| {
        move |row: &RateRow| Bar {
            name: row.name.clone(),
            value: row.per_second,
            label: unit(row.per_second),
            ours: row.ours,
        }
    };
    page.heading("Beside the network's own, in the same run");
    let charts = [
        (
            "Latency of 64 bytes, one way, median (shorter is better)",
            comparison.latencies.iter().map(latency).collect::<Vec<_>>(),
        ),
        ("Bandwidth (longer is better)", comparison.bandwidths.iter().map(rate(bytes_per_second)).collect()),
        (
            "Messages of 64 bytes per second (longer is better)",
            comparison.rates.iter().map(rate(count_per_second)).collect(),
        ),
    ];
    for (title, rows) in charts {
        page.chart(&bars(title, &rows).map_err(Error::Usage)?);
    }
    Ok(())
}

fn matrix_rows(matrix: &Matrix) -> Vec<Vec<String>> {
    let row = |(op, cells): &(crate::perf::Op, [super::matrix::MatrixCell; 3])| {
        std::iter::once(op.name().to_string()).chain(cells.iter().map(super::matrix::MatrixCell::text)).collect()
    };
    matrix.rows.iter().map(row).collect()
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    table
}

fn numbers<const N: usize>(cells: [String; N]) -> Vec<TableCell> {
    let aligned = |(i, text)| match i {
        0 => TableCell::new(text),
        _ => TableCell::new(text).set_alignment(CellAlignment::Right),
    };
    cells.into_iter().enumerate().map(aligned).collect()
}

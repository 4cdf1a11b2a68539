//! `longarm kv top`: live figures of a table and its server.

use std::thread;
use std::time::Duration;

use clap::Args;
use longarm_kv::TableFigures;

use super::target::TableTarget;
use crate::error::Error;
use crate::report::{count_per_second, size_rounded};
use crate::sizes;

/// Rows between two headers.
const PAGE: u64 = 20;

/// Show live figures of a table: keys, memory, operations, evictions, the server's processor time
#[derive(Args, Debug)]
pub(super) struct KvTopArgs {
    #[command(flatten)]
    target: TableTarget,
    /// Time between two rows
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = sizes::seconds)]
    every: Duration,
    /// Rows before the command ends; without it, it goes on
    #[arg(long)]
    rows: Option<u64>,
}

/// `longarm kv top`
pub(super) fn run(args: &KvTopArgs) -> Result<(), Error> {
    let mut table = args.target.open()?;
    let (mut before, mut row) = (table.figures()?, 0);
    while args.rows.is_none_or(|rows| row < rows) {
        thread::sleep(args.every);
        let now = table.figures()?;
        if row % PAGE == 0 {
            println!(
                "{:>10} {:>10} {:>6} {:>7} {:>10} {:>10} {:>10} {:>9} {:>9} {:>6}",
                "keys", "memory", "full", "clients", "one-sided", "rpc gets", "puts", "evicted", "expired", "cpu"
            );
        }
        println!("{}", line(&before, &now));
        (before, row) = (now, row + 1);
    }
    Ok(())
}

fn line(before: &TableFigures, now: &TableFigures) -> String {
    let nanoseconds = now.server_ns.saturating_sub(before.server_ns).max(1) as f64;
    let rate = |figure: fn(&TableFigures) -> u64| {
        let more = figure(now).saturating_sub(figure(before));
        count_per_second(more as f64 * 1e9 / nanoseconds)
    };
    let full = now.used_bytes as f64 * 100.0 / now.max_bytes.max(1) as f64;
    let cpu = now.server_cpu_ns.saturating_sub(before.server_cpu_ns) as f64 * 100.0 / nanoseconds;
    format!(
        "{:>10} {:>10} {:>4.0} % {:>7} {:>10} {:>10} {:>10} {:>9} {:>9} {:>4.0} %",
        now.keys,
        size_rounded(now.used_bytes),
        full,
        now.clients,
        rate(|figures| figures.reported_gets),
        rate(|figures| figures.gets),
        rate(|figures| figures.puts),
        rate(|figures| figures.evicted),
        rate(|figures| figures.expired),
        cpu
    )
}

//! `longarm kv layouts`: READs per lookup in each layout, counted in tables of this process, without a device.

mod counted;
mod figures;

use std::path::PathBuf;

use clap::Args;

use crate::error::Error;

/// Count the READs of a lookup in each layout: over occupancy, and over the size of the location cache
#[derive(Args, Debug)]
pub(super) struct KvLayoutsArgs {
    /// Slots of each table
    #[arg(long, default_value = "65536", value_parser = clap::value_parser!(u64).range(1024..=1 << 24))]
    slots: u64,
    /// Tables of each measurement, with other hashes; the mean counts
    #[arg(long, default_value = "4", value_parser = clap::value_parser!(u64).range(1..=100))]
    tables: u64,
    /// One line of JSON for each figure
    #[arg(long)]
    json: bool,
    /// Write READs of slots over occupancy as a plot
    #[arg(long, value_name = "FILE.svg")]
    plot_occupancy: Option<PathBuf>,
    /// Write READs per GET over the size of the location cache as a plot
    #[arg(long, value_name = "FILE.svg")]
    plot_cache: Option<PathBuf>,
}

/// `longarm kv layouts`
pub(super) fn run(args: &KvLayoutsArgs) -> Result<(), Error> {
    let lines = counted::all(args.slots, args.tables)?;
    if let Some(file) = &args.plot_occupancy {
        figures::write(file, &lines, counted::CountedOver::Occupancy)?;
    }
    if let Some(file) = &args.plot_cache {
        figures::write(file, &lines, counted::CountedOver::Cache)?;
    }
    if args.json { figures::print_json(&lines) } else { figures::print(&lines) }
}

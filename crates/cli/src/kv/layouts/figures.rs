//! Tables, lines and plots of the counts.

use std::path::Path;

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::counted::{CountedOver, CountedReads};
use crate::error::Error;
use crate::report::{Plot, PlotLine, plot};

/// Prints a line of JSON for each figure.
pub(super) fn print_json(lines: &[CountedReads]) -> Result<(), Error> {
    for line in lines {
        println!("{}", serde_json::to_string(line).map_err(|error| Error::Usage(error.to_string()))?);
    }
    Ok(())
}

/// Prints both tables.
pub(super) fn print(lines: &[CountedReads]) -> Result<(), Error> {
    println!("READs of slots per lookup of a present key, by the part of the slots that is full ({}):", "published");
    println!("{}", table(lines, CountedOver::Occupancy));
    println!(
        "READs of all kinds per lookup, keys zipfian (0.99), by the part of the keys whose places are remembered:"
    );
    println!("{}", table(lines, CountedOver::Cache));
    Ok(())
}

fn table(lines: &[CountedReads], over: CountedOver) -> Table {
    let mut percents: Vec<u64> = of(lines, over).map(|line| line.percent).collect();
    percents.sort_unstable();
    percents.dedup();
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY);
    table.set_header([String::new()].into_iter().chain(percents.iter().map(|percent| format!("{percent} %"))));
    for layout in layouts(lines) {
        let cell = |percent: &u64| {
            let found = of(lines, over).find(|line| line.layout == layout && line.percent == *percent);
            let text = found.map_or_else(|| "–".into(), shown);
            Cell::new(text).set_alignment(CellAlignment::Right)
        };
        table.add_row([Cell::new(layout)].into_iter().chain(percents.iter().map(cell)).collect::<Vec<_>>());
    }
    table
}

fn shown(line: &CountedReads) -> String {
    let published = line.published.map(|reads| format!(" ({reads:.3})"));
    format!("{:.3}{}", line.reads, published.unwrap_or_default())
}

fn of(lines: &[CountedReads], over: CountedOver) -> impl Iterator<Item = &CountedReads> {
    lines.iter().filter(move |line| line.over == over)
}

fn layouts(lines: &[CountedReads]) -> Vec<&str> {
    let mut names: Vec<&str> = lines.iter().map(|line| line.layout.as_str()).collect();
    names.dedup();
    names
}

/// Writes a plot: a line for each layout, and circles for the published figures.
pub(super) fn write(file: &Path, lines: &[CountedReads], over: CountedOver) -> Result<(), Error> {
    let mut drawn = Vec::new();
    for layout in layouts(lines) {
        let own = || of(lines, over).filter(move |line| line.layout == layout);
        // The axis is logarithmic: a cache of nothing has no place on it.
        let points = own().filter(|line| line.percent > 0).map(|line| (line.percent as f64, line.reads)).collect();
        drawn.push(PlotLine { name: layout.into(), points, ours: false, hollow: false });
        let points: Vec<_> = own().filter_map(|line| Some((line.percent as f64, line.published?))).collect();
        if !points.is_empty() {
            drawn.push(PlotLine { name: format!("{layout}, published"), points, ours: true, hollow: true });
        }
    }
    let title = match over {
        CountedOver::Occupancy => "READs of slots per lookup, over the part of the slots that is full",
        CountedOver::Cache => "READs per GET, over the part of the keys whose places are known",
    };
    let plotted =
        Plot { title: title.into(), lines: drawn, across: |percent| format!("{percent} %"), up: |r| format!("{r:.2}") };
    let svg = plot(&plotted).map_err(Error::Peer)?;
    std::fs::write(file, svg).map_err(|error| Error::File(file.display().to_string(), error))
}

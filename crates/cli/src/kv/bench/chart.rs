//! The results as a plot: one line for each system, workload, load and depth.

use std::path::Path;

use super::figures::KvLine;
use super::workload::Workload;
use crate::error::Error;
use crate::report::{Plot, PlotLine, count_per_second, plot, size};

/// Writes the plot: operations per second over the length of the values, the clients, the share of reads, or the depth.
pub(super) fn write(file: &Path, lines: &[KvLine]) -> Result<(), Error> {
    let svg = chart(lines).map_err(Error::Peer)?;
    std::fs::write(file, svg).map_err(|error| Error::File(file.display().to_string(), error))
}

/// A figure over which rates can be drawn: its name, its value in a line, and how to write it.
struct KvAxis {
    name: &'static str,
    of: fn(&KvLine) -> f64,
    show: fn(f64) -> String,
}

/// The first one that differs is drawn along; the others stand in the names of lines.
const AXES: [KvAxis; 4] = [
    KvAxis { name: "length of values", of: |line| line.size_bytes as f64, show: |bytes| size(bytes as u64) },
    KvAxis { name: "number of clients", of: |line| f64::from(line.clients), show: |clients| format!("{clients}") },
    KvAxis {
        name: "percentage of reads",
        of: |line| line.workload.reads() * 100.0,
        show: |reads| format!("{reads:.0}"),
    },
    KvAxis { name: "depth", of: |line| line.depth as f64, show: |depth| format!("{depth}") },
];

fn chart(lines: &[KvLine]) -> Result<String, String> {
    let differs = |axis: &KvAxis| lines.iter().any(|line| (axis.of)(line) != (axis.of)(&lines[0]));
    let is_mix = lines.iter().all(|line| matches!(line.workload, Workload::Reads(_)));
    let is_axis = |axis: &&KvAxis| differs(axis) && (is_mix || axis.name != "percentage of reads");
    let along = AXES.iter().find(is_axis).unwrap_or(&AXES[3]);
    let is_told = |axis: &str| axis != along.name && AXES.iter().any(|other| other.name == axis && differs(other));
    let tell_workload = along.name != AXES[2].name && lines.iter().any(|line| line.workload != lines[0].workload);
    let tell_load = lines.iter().any(|line| line.server_load != lines[0].server_load);
    let name = |line: &KvLine| {
        let mut name = line.system.clone();
        if tell_workload {
            name += &format!(", {}", line.workload);
        }
        if is_told("number of clients") {
            name += &format!(", {} clients", line.clients);
        }
        if is_told("depth") {
            name += &format!(", depth {}", line.depth);
        }
        if tell_load {
            name += &format!(", load {}", line.server_load);
        }
        name
    };
    let mut drawn: Vec<PlotLine> = Vec::new();
    for line in lines {
        let (name, point) = (name(line), ((along.of)(line), line.ops_per_second));
        match drawn.iter_mut().find(|other| other.name == name) {
            Some(other) => other.points.push(point),
            None => {
                let ours = line.system.starts_with("longarm");
                drawn.push(PlotLine { name, points: vec![point], ours, hollow: !ours });
            }
        }
    }
    plot(&Plot {
        title: format!("Operations per second, over the {}", along.name),
        lines: drawn,
        across: along.show,
        up: count_per_second,
    })
}

#[cfg(test)]
mod tests {
    use super::super::load::ServerLoad;
    use super::super::workload::KeyChoice;
    use super::*;

    fn line(system: &str, workload: char, size_bytes: u64, depth: usize) -> KvLine {
        KvLine {
            system: system.into(),
            workload: Workload::parse(workload).unwrap(),
            keys_by: KeyChoice::Uniform,
            keys: 10,
            size_bytes,
            clients: 1,
            server_load: ServerLoad::Spinning(0),
            depth,
            ops: 1,
            missing: 0,
            ops_per_second: 1000.0 * depth as f64,
            p50_ns: 1,
            p99_ns: 1,
            p999_ns: 1,
            reads_per_op: None,
            puts_alone: None,
            server_cpu: 0.0,
        }
    }

    #[test]
    fn a_plot_is_over_the_sizes_or_the_depths() {
        let over_depths = chart(&[line("longarm cluster", 'c', 64, 1), line("longarm cluster", 'c', 64, 16)]).unwrap();
        assert!(over_depths.contains("over the depth") && over_depths.contains("longarm cluster\n"), "{over_depths}");
        let sizes = [line("redis unix", 'b', 64, 1), line("redis unix", 'c', 4096, 1), line("redis unix", 'c', 64, 8)];
        let over_sizes = chart(&sizes).unwrap();
        for text in ["over the length of values", "redis unix, B, depth 1", "redis unix, C, depth 8", "4 KiB"] {
            assert!(over_sizes.contains(text), "{text} is missing in {over_sizes}");
        }
        let few = KvLine { workload: Workload::Reads(0), ..line("longarm cluster alone", 'a', 64, 1) };
        let stopped = KvLine { workload: Workload::Reads(50), server_load: ServerLoad::Stopped, ..few.clone() };
        let over_reads = chart(&[few.clone(), stopped]).unwrap();
        for text in ["over the percentage of reads", "alone, load 0", "alone, load stopped"] {
            assert!(over_reads.contains(text), "{text} is missing in {over_reads}");
        }
        let many = KvLine { clients: 8, depth: 4, ..few.clone() };
        let over_clients = chart(&[few, many]).unwrap();
        for text in ["over the number of clients", "alone, depth 4"] {
            assert!(over_clients.contains(text), "{text} is missing in {over_clients}");
        }
        assert!(chart(&[]).unwrap().starts_with("<svg"));
    }
}

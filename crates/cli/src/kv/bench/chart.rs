//! The results as a plot: one line for each system, workload and depth.

use std::path::Path;

use super::figures::KvLine;
use crate::error::Error;
use crate::report::{Plot, PlotLine, count_per_second, plot, size};

/// Writes the plot: operations per second over the length of the values, or over the depth.
pub(super) fn write(file: &Path, lines: &[KvLine]) -> Result<(), Error> {
    let svg = chart(lines).map_err(Error::Peer)?;
    std::fs::write(file, svg).map_err(|error| Error::File(file.display().to_string(), error))
}

fn chart(lines: &[KvLine]) -> Result<String, String> {
    let differ = |field: fn(&KvLine) -> u64| lines.iter().any(|line| field(line) != field(&lines[0]));
    let over_sizes = differ(|line| line.size_bytes);
    let (tell_workload, tell_depth) =
        (differ(|line| line.workload.letter() as u64), over_sizes && differ(|line| line.depth as u64));
    let name = |line: &KvLine| {
        let workload = if tell_workload { format!(", {}", line.workload.letter()) } else { String::new() };
        let depth = if tell_depth { format!(", depth {}", line.depth) } else { String::new() };
        format!("{}{workload}{depth}", line.system)
    };
    let mut drawn: Vec<PlotLine> = Vec::new();
    for line in lines {
        let along = if over_sizes { line.size_bytes as f64 } else { line.depth as f64 };
        let (name, point) = (name(line), (along, line.ops_per_second));
        match drawn.iter_mut().find(|other| other.name == name) {
            Some(other) => other.points.push(point),
            None => {
                let ours = line.system.starts_with("longarm");
                drawn.push(PlotLine { name, points: vec![point], ours, hollow: !ours });
            }
        }
    }
    plot(&Plot {
        title: format!("Operations per second, over the {}", if over_sizes { "length of values" } else { "depth" }),
        lines: drawn,
        across: if over_sizes { |bytes| size(bytes as u64) } else { |depth| format!("{depth}") },
        up: count_per_second,
    })
}

#[cfg(test)]
mod tests {
    use super::super::workload::{KeyChoice, Workload};
    use super::*;

    fn line(system: &str, workload: char, size_bytes: u64, depth: usize) -> KvLine {
        KvLine {
            system: system.into(),
            workload: Workload::parse(workload).unwrap(),
            keys_by: KeyChoice::Uniform,
            keys: 10,
            size_bytes,
            clients: 1,
            depth,
            ops: 1,
            missing: 0,
            ops_per_second: 1000.0 * depth as f64,
            p50_ns: 1,
            p99_ns: 1,
            p999_ns: 1,
            reads_per_op: None,
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
        assert!(chart(&[]).unwrap().starts_with("<svg"));
    }
}

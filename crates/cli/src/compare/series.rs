//! The plots: latency and bandwidth over the size, rate over the number of queue pairs.

use super::measure::{Contender, Measure, MessagePath, Quantity, TestVerb};
use super::results::Results;
use crate::report::{Plot, PlotLine, bytes_per_second, count_per_second, nanoseconds_precise, plot, size};

/// The definition of a plot.
pub(super) struct Figure {
    /// The file's name without its extension.
    pub(super) name: &'static str,
    title: &'static str,
    quantity: Quantity,
    lines: Vec<Vec<Measure>>,
    /// The parameter on the horizontal axis.
    along: fn(&Measure) -> u32,
}

const SAME_VERBS: [Contender; 6] = [
    Contender::Api(MessagePath::Host),
    Contender::Perftest(MessagePath::Host),
    Contender::UcxShm,
    Contender::Api(MessagePath::Wire),
    Contender::Perftest(MessagePath::Wire),
    Contender::UcxTcp,
];

/// All plots, over these sizes in bytes and numbers of queue pairs.
pub(super) fn figures(sizes: &[u32], qps: &[u32]) -> Vec<Figure> {
    let over_sizes = |contender, quantity, verb, most: u32| -> Vec<Measure> {
        let sizes = sizes.iter().filter(|size| **size <= most);
        sizes.map(|size| Measure::new(contender, quantity, verb, *size)).collect()
    };
    let all = |quantity, verb| SAME_VERBS.map(|contender| over_sizes(contender, quantity, verb, u32::MAX)).to_vec();
    let mut latency = all(Quantity::Latency, TestVerb::Send);
    // A datagram cannot be larger.
    latency.push(over_sizes(Contender::Udp, Quantity::Latency, TestVerb::Send, 32 << 10));
    latency.push(over_sizes(Contender::Tcp, Quantity::Latency, TestVerb::Send, u32::MAX));
    let mut write = all(Quantity::Bandwidth, TestVerb::Write);
    write.push(over_sizes(Contender::Memory, Quantity::Bandwidth, TestVerb::Write, u32::MAX));
    let over_qps = |contender, most: u32| -> Vec<Measure> {
        let qps = qps.iter().filter(|qps| **qps <= most);
        qps.map(|qps| Measure { qps: *qps, ..Measure::new(contender, Quantity::Rate, TestVerb::Send, 64) }).collect()
    };
    let figure = |name, title, quantity, lines, along| Figure { name, title, quantity, lines, along };
    let size: fn(&Measure) -> u32 = |measure| measure.size_bytes;
    vec![
        figure("latency", "SEND, one way, over the message's size", Quantity::Latency, latency, size),
        figure(
            "bandwidth-send",
            "SEND, over the message's size",
            Quantity::Bandwidth,
            all(Quantity::Bandwidth, TestVerb::Send),
            size,
        ),
        figure("bandwidth-write", "WRITE, over the message's size", Quantity::Bandwidth, write, size),
        figure(
            "rate",
            "SEND of 64 B, messages over the number of queue pairs",
            Quantity::Rate,
            [MessagePath::Host, MessagePath::Wire]
                .iter()
                .flat_map(|message_path| {
                    [
                        over_qps(Contender::Api(*message_path), u32::MAX),
                        over_qps(Contender::Perftest(*message_path), 100),
                    ]
                })
                .collect(),
            |measure| measure.qps,
        ),
    ]
}

impl Figure {
    /// The measurements of the plot, ordered so that contenders take turns.
    pub(super) fn plan(&self) -> Vec<Measure> {
        let mut plan: Vec<Measure> = self.lines.iter().flatten().copied().collect();
        plan.sort_by_key(self.along);
        plan
    }

    /// The plot as SVG.
    pub(super) fn svg(&self, results: &Results) -> Result<String, String> {
        let lines = self.lines.iter().filter_map(|line| {
            let contender = line.first()?.contender;
            let point = |measure: &Measure| Some((f64::from((self.along)(measure)), results.summary(measure)?.median));
            let points: Vec<(f64, f64)> = line.iter().filter_map(point).collect();
            let hollow = matches!(contender, Contender::Perftest(_));
            Some(PlotLine { name: contender.name().into(), points, ours: contender.is_ours(), hollow })
        });
        plot(&Plot {
            title: self.title.into(),
            lines: lines.filter(|line| !line.points.is_empty()).collect(),
            across: if self.name == "rate" { |value| format!("{value}") } else { |value| size(value as u64) },
            up: match self.quantity {
                Quantity::Latency => nanoseconds_precise,
                Quantity::Bandwidth => bytes_per_second,
                Quantity::Rate => count_per_second,
            },
        })
    }

    /// The plot as a table of medians; the best of each column is bold.
    pub(super) fn table(&self, results: &Results) -> String {
        let mut columns: Vec<u32> = self.lines.iter().flatten().map(self.along).collect();
        columns.sort_unstable();
        columns.dedup();
        let label = |column: &u32| match self.name {
            "rate" => format!("{column} QPs"),
            _ => size(u64::from(*column)),
        };
        let heads: Vec<String> = columns.iter().map(label).collect();
        let mut text = format!("| {} | {} |\n|---|{}\n", self.title, heads.join(" | "), "---:|".repeat(columns.len()));
        for line in &self.lines {
            let Some(first) = line.first() else { continue };
            let cells: Vec<String> = columns.iter().map(|column| self.cell(line, *column, results)).collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                text += &format!("| {} | {} |\n", first.contender.name(), cells.join(" | "));
            }
        }
        text
    }

    fn cell(&self, line: &[Measure], column: u32, results: &Results) -> String {
        let median = |measure: &Measure| results.summary(measure).map(|summary| summary.median);
        let at = |line: &[Measure]| line.iter().find(|measure| (self.along)(measure) == column).and_then(median);
        let Some(value) = at(line) else { return String::new() };
        let others = self.lines.iter().filter_map(|line| at(line));
        let best = match self.quantity {
            Quantity::Latency => others.fold(f64::INFINITY, f64::min),
            _ => others.fold(0.0, f64::max),
        };
        let text = line[0].show(value);
        if value == best { format!("**{text}**") } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_a_column_is_bold_and_gaps_are_empty() {
        let figures = figures(&[8, 64], &[1]);
        let latency = &figures[0];
        assert!(latency.plan().len() >= 12);
        let mut results = Results::default();
        let of = |contender, size| Measure::new(contender, Quantity::Latency, TestVerb::Send, size);
        results.add(of(Contender::Api(MessagePath::Host), 8), 90.0);
        results.add(of(Contender::UcxShm, 8), 80.0);
        results.add(of(Contender::UcxShm, 64), 85.0);
        let table = latency.table(&results);
        assert!(table.contains("| Longarm, same host | 90.0 ns |  |"), "{table}");
        assert!(table.contains("| UCX shared memory | **80.0 ns** | **85.0 ns** |"), "{table}");
        let svg = latency.svg(&results).unwrap();
        assert!(svg.contains("UCX shared memory") && !svg.contains("UCX TCP"));
    }
}

//! Figures of all rounds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::plan::KvFigureCommand;

/// Seconds after which a command counts as failed.
const PATIENCE_S: u32 = 600;

/// The name of a figure: topic, system, workload, number, and name of the field.
type FigureName = (String, String, String, u64, String);

/// Figures by name, one for each round, and the reasons of commands that gave none.
#[derive(Debug, Default)]
pub(super) struct KvResults {
    figures: BTreeMap<FigureName, Vec<f64>>,
    pub(super) failures: BTreeSet<String>,
}

impl KvResults {
    /// Runs a command and adds its figures.
    pub(super) fn add(&mut self, command: &KvFigureCommand, program: &Path) {
        let mut process = Command::new("timeout");
        process.arg(PATIENCE_S.to_string()).arg(program).args(command.arguments.split_whitespace());
        if command.wire {
            process.env("LONGARM_LOCAL", "off");
        } else {
            process.env_remove("LONGARM_LOCAL");
        }
        let output = match process.stdin(Stdio::null()).output() {
            Ok(output) => output,
            Err(error) => {
                self.failures.insert(format!("timeout: {error}"));
                return;
            }
        };
        let said = String::from_utf8_lossy(&output.stderr);
        self.failures.extend(said.lines().map(String::from));
        if !output.status.success() {
            self.failures.insert(format!("`longarm {}`: {}", command.arguments, output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .for_each(|line| self.take(command.topic, &line));
    }

    pub(super) fn take(&mut self, topic: &str, line: &Value) {
        // `longarm kv layouts` tells layouts and percentages.
        let word =
            |name: &str, other: &str| line[name].as_str().or(line[other].as_str()).unwrap_or_default().to_owned();
        let depth = line["depth"].as_u64().or(line["percent"].as_u64()).unwrap_or_default();
        let clients = line["clients"].as_u64().unwrap_or(1);
        let topic = KvResults::topic(topic, clients, line["server_load"].as_str().unwrap_or("0"));
        // `longarm perf` has the median in an object, `longarm kv bench` in the line.
        let fields = [
            ("p50_ns", line["p50_ns"].as_f64().or(line["latency"]["p50_ns"].as_f64())),
            ("ops_per_second", line["ops_per_second"].as_f64()),
            ("reads_per_op", line["reads_per_op"].as_f64()),
            ("server_cpu", line["server_cpu"].as_f64()),
            ("reads", line["reads"].as_f64()),
            ("published", line["published"].as_f64()),
        ];
        for (field, value) in fields {
            let name = (topic.clone(), word("system", "layout"), word("workload", "over"), depth, field.to_owned());
            self.figures.entry(name).or_default().extend(value);
        }
    }

    /// Adds a figure that no program tells as JSON.
    pub(super) fn note(&mut self, topic: &str, system: &str, field: &str, value: f64) {
        let name = (topic.to_owned(), system.to_owned(), String::new(), 0, field.to_owned());
        self.figures.entry(name).or_default().push(value);
    }

    /// The name of a topic with so many clients and that load of the server.
    pub(super) fn topic(topic: &str, clients: u64, load: &str) -> String {
        match (clients, load) {
            (1, "0") => topic.to_owned(),
            _ => format!("{topic}, {clients} clients, load {load}"),
        }
    }

    /// The median of a figure. `perf` has neither system nor workload, and its depth does not matter.
    pub(super) fn median(&self, topic: &str, system: &str, workload: &str, field: &str) -> Option<f64> {
        self.of(topic, system, workload, field).map(|(_, median)| median).next()
    }

    /// A figure of `longarm kv layouts`: over occupancy or over the size of the cache, at some percentage.
    pub(super) fn counted(&self, layout: &str, over: &str, percent: u64, field: &str) -> Option<f64> {
        self.of("counted", layout, over, field).find(|(at, _)| *at == percent).map(|(_, median)| median)
    }

    /// The best of the depths: the highest rate, and its depth.
    pub(super) fn best_rate(&self, topic: &str, system: &str, workload: &str) -> Option<(u64, f64)> {
        self.of(topic, system, workload, "ops_per_second").max_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// The rate at one depth.
    pub(super) fn rate_at(&self, topic: &str, system: &str, workload: &str, depth: u64) -> Option<f64> {
        let mut of = self.of(topic, system, workload, "ops_per_second");
        of.find(|(at, _)| *at == depth).map(|(_, median)| median)
    }

    fn of<'a>(
        &'a self,
        topic: &'a str,
        system: &'a str,
        workload: &'a str,
        field: &'a str,
    ) -> impl Iterator<Item = (u64, f64)> + 'a {
        let is_it =
            move |name: &FigureName| name.0 == topic && name.1 == system && name.2 == workload && name.4 == field;
        self.figures
            .iter()
            .filter(move |(name, _)| is_it(name))
            .filter_map(|(name, values)| Some((name.3, median(values)?)))
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_depth_and_the_median_count() {
        let mut results = KvResults::default();
        for (depth, rate) in [(1, 5.0), (16, 30.0), (16, 10.0), (16, 20.0), (64, 15.0)] {
            let line = serde_json::json!({"system": "kv", "workload": "c", "depth": depth, "ops_per_second": rate});
            results.take("rate", &line);
        }
        assert_eq!(results.best_rate("rate", "kv", "c"), Some((16, 20.0)));
        assert_eq!(results.best_rate("rate", "redis", "c"), None);
        results.take("read", &serde_json::json!({"latency": {"p50_ns": 700}}));
        assert_eq!(results.median("read", "", "", "p50_ns"), Some(700.0));
    }
}

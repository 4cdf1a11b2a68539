//! The page docs/kv-results.md.

use std::fmt::Write;

use super::axes;
use super::counted;
use super::doors;
use super::durable;
use super::options::KvCompareOptions;
use super::plan::{KEYS, WAY_TOPICS};
use super::results::KvResults;

const INTRODUCTION: &str = "\
# Results of longarm-kv

`cargo xtask compare --kv` writes this page. Each figure is the median of several rounds; in each round all programs run in turn.
The client has one thread on one core, the server another core. Rates are those of the best of three depths. A depth is
a pipeline on sockets, a multi-get or several requests here. [docs/kv.md](kv.md) says what the systems do.
";

const OURS: &str = "longarm cluster";
const UNIX_PEERS: [&str; 3] = ["redis unix", "valkey unix", "memcached unix"];

/// Names of the ways in results, and their papers.
pub(super) const WAYS: [(&str, &str); 6] = [
    (OURS, "DrTM-KV"),
    ("longarm hopscotch", "FaRM-KV"),
    ("longarm cuckoo", "Pilaf"),
    ("longarm cluster-atomic", "SABRes"),
    ("longarm device", "KV-Direct"),
    ("longarm rpc", "HERD"),
];

/// The ratio to reach.
#[derive(Clone, Copy)]
enum TargetGoal {
    AtMost(f64),
    AtLeast(f64),
}

/// A row of the table of targets.
struct TargetRow {
    id: &'static str,
    what: String,
    ours: Option<f64>,
    beside: Option<f64>,
    /// Ours by the other, or the other by ours.
    ratio: Option<f64>,
    goal: TargetGoal,
    show: fn(f64) -> String,
}

/// The page as text.
pub(super) fn page(results: &KvResults, options: &KvCompareOptions) -> String {
    let mut text = format!("{INTRODUCTION}\n{}\n", machine(options));
    text += "\n| target | what | longarm-kv | beside | figure | goal | met |\n|---|---|---:|---:|---:|---:|---|\n";
    for row in rows(results) {
        let shown = |figure: Option<f64>| figure.map_or_else(|| "–".into(), row.show);
        let (goal, met) = match row.goal {
            TargetGoal::AtMost(most) => (format!("≤ {most}"), row.ratio.map(|ratio| ratio <= most)),
            TargetGoal::AtLeast(least) => (format!("≥ {least}"), row.ratio.map(|ratio| ratio >= least)),
        };
        let met = met.map_or("not measured", |met| if met { "yes" } else { "**no**" });
        let ratio = row.ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}"));
        let (ours, beside) = (shown(row.ours), shown(row.beside));
        let _ = writeln!(text, "| {} | {} | {ours} | {beside} | {ratio} | {goal} | {met} |", row.id, row.what);
    }
    text += &rates(results);
    text += &counted::section(results);
    text += &scans(results);
    text += &ways(results);
    text += &axes::sections(results);
    text += &doors::section(results);
    text += &durable::section(results);
    text += "\nK2 also asks for GETs over the wire from a stopped server. Longarm's device has no processor of its own: over packets the\n\
             owner's process answers READs, so a process that is stopped answers nothing. On one host it hinders nobody.\n\
             K5 is a property of the layouts: the tables of READs have it. Of K7, the scans have Cell.\n";
    for failure in &results.failures {
        let _ = writeln!(text, "\n- {failure}");
    }
    text
}

fn machine(options: &KvCompareOptions) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let model = model.trim_start_matches([' ', '\t', ':']);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').nth(1).unwrap_or("unknown");
    format!(
        "The last run: {} round(s) of {} s. {model}, {cores} processors; the load of the last five minutes was {load}.",
        options.rounds, options.seconds
    )
}

fn rows(results: &KvResults) -> Vec<TargetRow> {
    let mut rows = Vec::new();
    let latency = |topic, system| results.median(topic, system, "c", "p50_ns");
    let mut compare = |id, what: String, ours: Option<f64>, beside: Option<f64>, goal, show, ours_first: bool| {
        let ratio = ours.zip(beside).map(|(ours, beside)| if ours_first { ours / beside } else { beside / ours });
        rows.push(TargetRow { id, what, ours, beside, ratio, goal, show });
    };
    let (host, wire) = (latency("latency", OURS), latency("wire latency", OURS));
    let read = |topic| results.median(topic, "", "", "p50_ns");
    compare("K1", "GET 64 B by READ of 64 B".into(), host, read("read"), TargetGoal::AtMost(1.5), microseconds, true);
    for peer in UNIX_PEERS {
        let goal = TargetGoal::AtLeast(50.0);
        compare("K1", format!("{peer} by GET 64 B"), host, latency("latency", peer), goal, microseconds, false);
    }
    compare("K2", "wire: GET by READ".into(), wire, read("wire read"), TargetGoal::AtMost(1.2), microseconds, true);
    let tcp = latency("wire latency", "redis tcp");
    compare("K2", "wire: Redis over TCP by GET".into(), wire, tcp, TargetGoal::AtLeast(3.0), microseconds, false);
    for (id, workload, least, peers) in [("K3", "b", 10.0, 3), ("K3", "c", 10.0, 3), ("K4", "a", 3.0, 1)] {
        for peer in &UNIX_PEERS[..peers] {
            let rate = |system| results.best_rate("rate", system, workload).map(|(_, rate)| rate);
            let what = format!("YCSB-{} by {peer}", workload.to_uppercase());
            compare(id, what, rate(OURS), rate(peer), TargetGoal::AtLeast(least), millions, true);
        }
    }
    let reads = results.median("cache", OURS, "c", "reads_per_op");
    let what = "READs per GET, zipf 0.99, a cache of 20 % of the keys";
    let goal = TargetGoal::AtMost(1.3);
    rows.push(TargetRow { id: "K6", what: what.into(), ours: reads, beside: None, ratio: reads, goal, show: plain });
    rows
}

/// All rates, with the server's processor time.
fn rates(results: &KvResults) -> String {
    let mut text = format!(
        "\n## Rates of one client thread\n\n{KEYS} keys, values of 64 B, zipfian. The number behind a rate is its depth. The last column is \
         the processor time\nof the server's process during YCSB-C, of one core.\n\n\
         | system | A | B | C | server during C |\n|---|---:|---:|---:|---:|\n"
    );
    let systems =
        [(OURS, "rate"), ("longarm rpc", "rate"), ("longarm hopscotch", "layouts"), ("longarm cuckoo", "layouts")];
    for (system, topic) in systems.into_iter().chain(UNIX_PEERS.map(|peer| (peer, "rate"))) {
        let rate = |workload: &str| {
            let best = results.best_rate(topic, system, workload);
            best.map_or_else(|| "–".into(), |(depth, rate)| format!("{} ({depth})", millions(rate)))
        };
        let cpu = results.median(topic, system, "c", "server_cpu");
        let cpu = cpu.map_or_else(|| "–".into(), |cpu| format!("{:.0} %", cpu * 100.0));
        let _ = writeln!(text, "| {system} | {} | {} | {} | {cpu} |", rate("a"), rate("b"), rate("c"));
    }
    text
}

/// Rates of scans.
fn scans(results: &KvResults) -> String {
    let mut text = String::from(
        "\n## Scans: YCSB-E\n\n95 % scans of 1 to 100 keys with their values, 5 % insertions. Redis and Valkey have the keys in a sorted set beside \
         the values:\nZRANGEBYLEX, then MGET; SET and ZADD.\n\n| system | E | READs per operation | server |\n|---|---:|---:|---:|\n",
    );
    let ours = ["longarm tree", "longarm tree rpc", "longarm tree choose"];
    for system in ours.into_iter().chain(["redis unix", "valkey unix"]) {
        let best = results.best_rate("scans", system, "e");
        let rate = best.map_or_else(|| "–".into(), |(depth, rate)| format!("{:.0} k/s ({depth})", rate / 1e3));
        let reads = results.median("scans", system, "e", "reads_per_op").map_or_else(|| "–".into(), plain);
        let cpu = results.median("scans", system, "e", "server_cpu");
        let cpu = cpu.map_or_else(|| "–".into(), |cpu| format!("{:.0} %", cpu * 100.0));
        let _ = writeln!(text, "| {system} | {rate} | {reads} | {cpu} |");
    }
    text
}

/// Systems of the literature side by side, over the length of values and the share of reads (K7).
fn ways(results: &KvResults) -> String {
    let mut text = "\n## Systems side by side (K7)\n\n10,000 keys, zipfian, one client thread; M/s at the better of the depths 1 and 16, by the \
                    length of values\nand the workload. The last column is the processor time of the server's process during YCSB-C of 64 B.\n\n\
                    | system | as in |"
        .to_owned();
    WAY_TOPICS.iter().for_each(|topic| text += &format!(" C, {topic} | A, {topic} |"));
    text += " server |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n";
    for (system, paper) in WAYS {
        let _ = write!(text, "| {system} | {paper} |");
        for topic in WAY_TOPICS {
            for workload in ["c", "a"] {
                let rate = results.best_rate(topic, system, workload).map(|(_, rate)| format!("{:.2}", rate / 1e6));
                let _ = write!(text, " {} |", rate.as_deref().unwrap_or("–"));
            }
        }
        let cpu = results.median(WAY_TOPICS[0], system, "c", "server_cpu");
        let _ = writeln!(text, " {} |", cpu.map_or_else(|| "–".into(), |cpu| format!("{:.0} %", cpu * 100.0)));
    }
    text
}

fn microseconds(ns: f64) -> String {
    format!("{:.2} µs", ns / 1e3)
}

fn millions(rate: f64) -> String {
    format!("{:.2} M/s", rate / 1e6)
}

fn plain(figure: f64) -> String {
    format!("{figure:.2}")
}

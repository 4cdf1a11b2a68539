//! PUT by RPC beside PUT by the client alone, and the axes of K7: the server's load and the share of reads.

use std::fmt::Write;

use super::options::KvCompareOptions;
use super::plan::KvFigureCommand;
use super::results::KvResults;

/// The plot of PUTs over the number of clients.
pub(super) const PUTS_PLOT: &str = "docs/kv-puts.svg";

const BY_RPC: &str = "longarm cluster";
const ALONE: &str = "longarm cluster alone";
/// Topic, choice of keys, and whether packets carry it.
const PUTS: [(&str, &str, bool); 4] = [
    ("puts zipfian", "zipfian", false),
    ("puts uniform", "uniform", false),
    ("wire puts zipfian", "zipfian", true),
    ("wire puts uniform", "uniform", true),
];
const CLIENTS: [u16; 4] = [1, 2, 4, 8];
const LOADS: [&str; 4] = ["0", "1", "4", "stopped"];
const READS: [&str; 4] = ["0", "50", "95", "100"];
const SHARES: &str = "reads";
const LOADED: &str = "loads";
const SETTING: &str = "--keys 10000 --depth 1,16";

/// The commands that give the figures.
pub(super) fn commands(options: &KvCompareOptions) -> Vec<KvFigureCommand> {
    let bench = |topic, wire, arguments: String| KvFigureCommand {
        topic,
        arguments: format!("kv bench --json --seconds {} {SETTING} {arguments}", options.seconds),
        wire,
    };
    let puts = PUTS.map(|(topic, keys_by, wire)| bench(topic, wire, format!("{} --keys-by {keys_by}", puts())));
    let systems = "--system kv,kv-hopscotch,kv-cuckoo,kv-atomic,kv-device,kv-rpc";
    let reads = READS.join(",");
    let mut all = vec![
        bench(LOADED, false, format!("{systems} --reads 100 --server-load {}", LOADS.join(","))),
        bench(SHARES, false, format!("--system kv --put rpc,one-sided --reads {reads}")),
        bench(SHARES, false, format!("--system kv-rpc,kv-device --reads {reads}")),
    ];
    all.extend(puts);
    all
}

/// The arguments of PUTs under contention.
fn puts() -> String {
    let clients = CLIENTS.map(|number| number.to_string()).join(",");
    format!("--system kv --put rpc,one-sided --reads 0 --clients {clients}")
}

/// The command that draws [`PUTS_PLOT`].
pub(super) fn plot(file: &str, seconds: f64) -> String {
    format!("kv bench --seconds {seconds} --keys 10000 --depth 1 {} --plot {file}", puts())
}

/// The sections of the page.
pub(super) fn sections(results: &KvResults) -> String {
    let mut text = String::from(
        "\n## PUT by RPC, and by the client alone\n\nUpdates only: 10,000 keys, values of 64 B; M/s of all clients together, at the better of the \
         depths 1 and 16.\nA client alone PUTs one after the other; by RPC the requests of a batch are under way together. All clients share \
         the\ncores beside the server's.\n\n",
    );
    head(
        &mut text,
        "keys, path | PUT",
        CLIENTS.map(|number| format!("{number} client{}", if number == 1 { "" } else { "s" })),
    );
    for (topic, keys_by, wire) in PUTS {
        for (way, system) in [("RPC", BY_RPC), ("alone", ALONE)] {
            let _ = write!(text, "| {keys_by}, {} | {way} |", if wire { "wire" } else { "one host" });
            for clients in CLIENTS {
                cell(&mut text, results, &KvResults::topic(topic, clients.into(), "0"), system, "0");
            }
            text.push('\n');
        }
    }
    text += "\n![PUTs over the number of clients](kv-puts.svg)\n\n## Load of the server's core (K7)\n\nGETs only, zipfian, one client thread; M/s \
             at the better of the depths 1 and 16.\nMeanwhile so many programs compute on the server's core, or the server's process is \
             stopped.\n\n";
    head(&mut text, "system | as in", ["alone", "1 program", "4 programs", "stopped"].map(String::from));
    for (system, paper) in super::page::WAYS {
        let _ = write!(text, "| {system} | {paper} |");
        LOADS.iter().for_each(|load| cell(&mut text, results, &KvResults::topic(LOADED, 1, load), system, "100"));
        text.push('\n');
    }
    text += "\n## Share of reads (K7)\n\nThe rest are updates. Zipfian, one client thread; M/s at the better of the depths 1 and 16.\n\n";
    head(&mut text, "GET | PUT", READS.map(|percent| format!("{percent} % reads")));
    let ways = [
        ("READs", "RPC", BY_RPC),
        ("READs", "alone", ALONE),
        ("RPC", "RPC", "longarm rpc"),
        ("device", "RPC", "longarm device"),
    ];
    for (get, put, system) in ways {
        let _ = write!(text, "| {get} | {put} |");
        READS.iter().for_each(|percent| cell(&mut text, results, SHARES, system, percent));
        text.push('\n');
    }
    text
}

fn head<const N: usize>(text: &mut String, first: &str, columns: [String; N]) {
    let _ = writeln!(text, "| {first} | {} |\n|---|---|{}", columns.join(" | "), "---:|".repeat(N));
}

fn cell(text: &mut String, results: &KvResults, topic: &str, system: &str, workload: &str) {
    let rate = results.best_rate(topic, system, workload).map(|(_, rate)| format!("{:.2}", rate / 1e6));
    let _ = write!(text, " {} |", rate.as_deref().unwrap_or("–"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_clients_loads_and_shares() {
        let mut results = KvResults::default();
        let line = |system: &str, reads: &str, clients: u16, load: &str, rate: f64| {
            serde_json::json!({"system": system, "workload": reads, "clients": clients, "server_load": load, "depth": 1,
                               "ops_per_second": rate})
        };
        results.take("puts uniform", &line(ALONE, "0", 1, "0", 1e6));
        results.take("puts uniform", &line(ALONE, "0", 8, "0", 2.5e6));
        results.take(LOADED, &line("longarm rpc", "100", 1, "0", 1e6));
        results.take(LOADED, &line(BY_RPC, "100", 1, "stopped", 3e6));
        results.take(SHARES, &line("longarm rpc", "95", 1, "0", 4e6));
        let text = sections(&results);
        for row in [
            "| uniform, one host | alone | 1.00 | – | – | 2.50 |",
            "| longarm rpc | HERD | 1.00 | – | – | – |",
            "| longarm cluster | DrTM-KV | – | – | – | 3.00 |",
            "| RPC | RPC | – | – | 4.00 | – |",
        ] {
            assert!(text.contains(row), "{row} is missing in\n{text}");
        }
    }
}

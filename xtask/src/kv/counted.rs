//! The section about READs, which `longarm kv layouts` counts: target K5, and the curve of K6.

use std::fmt::Write;

use super::results::KvResults;

const LAYOUTS: [&str; 3] = ["cluster", "hopscotch", "cuckoo"];
/// The percentages that DrTM-KV's table has.
const FULL: [u64; 3] = [50, 75, 90];
const CACHED: [u64; 8] = [0, 1, 2, 5, 10, 20, 50, 100];

/// Both tables, with their plots.
pub(super) fn section(results: &KvResults) -> String {
    let mut text = String::from(
        "\n## READs of a lookup\n\n`longarm kv layouts` counts them in tables of 65,536 slots: they do not depend on the machine. READs of slots for a \
         present key,\nby the part of the slots that is full. The figures of DrTM-KV's paper are in brackets (K5):\n\n",
    );
    let occupancy = |layout: &str, percent: u64| {
        let published = results.counted(layout, "occupancy", percent, "published");
        let published = published.map_or_else(String::new, |published| format!(" ({published:.3})"));
        let reads = results.counted(layout, "occupancy", percent, "reads");
        reads.map_or_else(|| "–".into(), |reads| format!("{reads:.3}{published}"))
    };
    table(&mut text, "full", &FULL, occupancy);
    text += "\n![READs over occupancy](kv-reads-occupancy.svg)\n\nREADs of all kinds for zipfian keys (0.99) in tables that are 75 % full.\n\
             The client remembers the places of a part of the keys (K6):\n\n";
    let cached = |layout: &str, percent: u64| {
        let reads = results.counted(layout, "cache", percent, "reads");
        reads.map_or_else(|| "–".into(), |reads| format!("{reads:.2}"))
    };
    table(&mut text, "remembered", &CACHED, cached);
    text + "\n![READs over the cache's size](kv-reads-cache.svg)\n"
}

fn table(text: &mut String, corner: &str, percents: &[u64], cell: impl Fn(&str, u64) -> String) {
    let heads: String = percents.iter().map(|percent| format!(" {percent} % |")).collect();
    let _ = writeln!(text, "| {corner} |{heads}\n|---|{}", "---:|".repeat(percents.len()));
    for layout in LAYOUTS {
        let cells: String = percents.iter().map(|percent| format!(" {} |", cell(layout, *percent))).collect();
        let _ = writeln!(text, "| {layout} |{cells}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_the_counts() {
        let mut results = KvResults::default();
        let line = |over: &str, percent: u64, reads: f64| serde_json::json!({"over": over, "layout": "cluster", "percent": percent, "reads": reads, "published": 1.052});
        results.take("counted", &line("occupancy", 75, 1.0531));
        results.take("counted", &line("cache", 20, 1.224));
        let text = section(&results);
        assert!(text.contains("| cluster | – | 1.053 (1.052) | – |"), "{text}");
        assert!(text.contains("| cluster | – | – | – | – | – | 1.22 | – | – |"), "{text}");
    }
}

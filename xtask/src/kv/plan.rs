//! The commands that give the figures.

use super::options::KvCompareOptions;

/// Keys of the tables.
pub(super) const KEYS: u64 = 100_000;
/// Depths of pipelines and multi-gets; the best counts.
const DEPTHS: &str = "1,16,64";

/// Systems of the literature, as ways of GET.
const WAYS: &str = "kv,kv-hopscotch,kv-cuckoo,kv-atomic,kv-device,kv-rpc";
/// The topics of their figures, by the length of values.
pub(super) const WAY_TOPICS: [&str; 3] = ["64 B", "1 KiB", "8 KiB"];

/// The rules for syncs of K12, which are the topics of its figures, too.
pub(super) const SYNC_RULES: [&str; 2] = ["everysec", "always"];
/// The depths of K12.
pub(super) const SYNC_DEPTHS: [u64; 2] = [1, 16];

/// One command, and the name under which its figures are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KvFigureCommand {
    pub(super) topic: &'static str,
    pub(super) arguments: String,
    /// Packets between processes of this host in place of shared memory.
    pub(super) wire: bool,
}

/// All commands of a round.
pub(super) fn commands(options: &KvCompareOptions) -> Vec<KvFigureCommand> {
    let seconds = options.seconds;
    let bench = |topic, wire, arguments: String| KvFigureCommand {
        topic,
        arguments: format!("kv bench --json --seconds {seconds} {arguments}"),
        wire,
    };
    let read = |topic, wire| KvFigureCommand { topic, arguments: "perf read --size 64 --json".into(), wire };
    // So few keys that the client knows all places when the measurement begins, over the wire too.
    let latency = "--workload c --keys-by uniform --keys 1000 --depth 1";
    let rate = format!("--keys {KEYS} --depth {DEPTHS}");
    let ways = |topic, workload, size| {
        let arguments = format!("--system {WAYS} --workload {workload} --keys 10000 --depth 1,16 --size {size}");
        bench(topic, false, arguments)
    };
    let [one, many] = SYNC_DEPTHS;
    let durable = SYNC_RULES.map(|rule| {
        let load = format!("--workload a --keys {KEYS} --depth {one},{many} --fsync {rule}");
        bench(rule, false, format!("--system kv,kv-rpc,redis {load}"))
    });
    let mut commands = vec![
        ways(WAY_TOPICS[0], "ac", 64),
        ways(WAY_TOPICS[1], "ac", 1024),
        ways(WAY_TOPICS[2], "ac", 8192),
        read("read", false),
        bench("latency", false, format!("--system kv,redis,valkey,memcached {latency}")),
        read("wire read", true),
        bench("wire latency", true, format!("--system kv,redis-tcp {latency}")),
        bench("rate", false, format!("--system kv,kv-rpc,redis,valkey,memcached --workload abc {rate}")),
        bench("layouts", false, format!("--system kv-hopscotch,kv-cuckoo --workload c {rate}")),
        KvFigureCommand { topic: "counted", arguments: "kv layouts --json".into(), wire: false },
        bench("scans", false, format!("--system kv-tree,kv-tree-rpc,kv-tree-choose,redis,valkey --workload e {rate}")),
        bench("cache", false, format!("--system kv --workload c --keys {KEYS} --depth 1 --locations {}", KEYS / 5)),
    ];
    commands.extend(durable);
    commands
}

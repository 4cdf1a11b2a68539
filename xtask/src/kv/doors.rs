//! K8: the door for Redis clients beside Redis, by redis-benchmark at the same settings.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::options::KvCompareOptions;
use super::results::KvResults;

const TOPIC: &str = "door";
const OURS: &str = "longarm door";
const REDIS: &str = "redis";
/// Commands of redis-benchmark.
const TESTS: [&str; 4] = ["SET", "GET", "INCR", "MSET (10 keys)"];
/// Connections, and requests that each sends together.
const SETTINGS: [(u64, u64); 4] = [(50, 1), (50, 16), (1000, 1), (1000, 16)];
/// Requests of a second, about, without and with pipelines.
const REQUESTS: [f64; 2] = [60_000.0, 300_000.0];

/// A network namespace and a directory for the hub. Words: the port, the arguments of redis-benchmark, and the server's command.
const SCRIPT: &str = "ip link set lo up && ulimit -n $(ulimit -Hn) && export LONGARM_RUNTIME_DIR=$(mktemp -d) && cd $LONGARM_RUNTIME_DIR; \
     port=$1; arguments=$2; shift 2; \"$@\" > /dev/null & server=$!; \
     until [ \"$(redis-cli -p $port ping 2> /dev/null)\" = PONG ]; do sleep 0.1; kill -0 $server || exit 1; done; \
     timeout 300 redis-benchmark -p $port -t set,get,incr,mset -r 100000 -d 64 --csv $arguments; status=$?; \
     kill $server; wait; rm -rf \"$LONGARM_RUNTIME_DIR\"; exit $status";

/// Measures both in all settings.
pub(super) fn measure(results: &mut KvResults, program: &Path, options: &KvCompareOptions) {
    let program = program.display().to_string();
    let ours = [&program, "kv", "serve", "127.0.0.1:7480", "--max-memory", "1G", "--resp", "127.0.0.1:6380"];
    let redis = ["redis-server", "--port", "6379", "--save", "", "--appendonly", "no"];
    for (clients, depth) in SETTINGS {
        let requests = (REQUESTS[usize::from(depth > 1)] * options.seconds) as u64;
        let arguments = format!("-c {clients} -P {depth} -n {requests}");
        for (system, port, server) in [(OURS, "6380", &ours[..]), (REDIS, "6379", &redis[..])] {
            match run(port, &arguments, server) {
                Ok(text) => rates(&text).for_each(|(test, rate)| {
                    let line = json!({"system": system, "workload": test, "depth": depth, "clients": clients, "ops_per_second": rate});
                    results.take(TOPIC, &line);
                }),
                Err(why) => drop(results.failures.insert(format!("redis-benchmark {arguments}, {system}: {why}"))),
            }
        }
    }
}

fn run(port: &str, arguments: &str, server: &[&str]) -> Result<String, String> {
    let mut command = Command::new("unshare");
    // An ordinary user makes the namespace inside one of users; root may, too.
    command.args(["-rn", "sh", "-c", SCRIPT, "sh", port, arguments]).args(server);
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")),
    }
}

/// Tests and rates in the lines of redis-benchmark: `"SET","79365.08",…`.
fn rates(csv: &str) -> impl Iterator<Item = (&str, f64)> {
    csv.lines().filter_map(|line| {
        let mut columns = line.split(',').map(|column| column.trim_matches('"'));
        Some((columns.next()?, columns.next()?.parse().ok()?))
    })
}

/// The section of the page.
pub(super) fn section(results: &KvResults) -> String {
    let mut text = String::from(
        "\n## Redis clients (K8)\n\n`redis-benchmark -r 100000 -d 64` over TCP on this host, at the same settings, in turn; thousands of \
         requests a second. The goal is\n1.00 or more.\n\n\
         | connections | pipeline | command | the door | Redis | ratio | met |\n|---:|---:|---|---:|---:|---:|---|\n",
    );
    for (clients, depth) in SETTINGS {
        let topic = KvResults::topic(TOPIC, clients, "0");
        for test in TESTS {
            let rate = |system| results.rate_at(&topic, system, test, depth);
            let (ours, redis) = (rate(OURS), rate(REDIS));
            let shown = |rate: Option<f64>| rate.map_or_else(|| "–".into(), |rate| format!("{:.0}", rate / 1e3));
            let ratio = ours.zip(redis).map(|(ours, redis)| ours / redis);
            let met = ratio.map_or("not measured", |ratio| if ratio >= 1.0 { "yes" } else { "**no**" });
            let ratio = ratio.map_or_else(|| "–".into(), |ratio| format!("{ratio:.2}"));
            let (ours, redis) = (shown(ours), shown(redis));
            // A string takes all text.
            let _ = writeln!(text, "| {clients} | {depth} | {test} | {ours} | {redis} | {ratio} | {met} |");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_redis_benchmark_become_rows() {
        let csv =
            "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"80000.00\",\"0.3\"\n\"MSET (10 keys)\",\"1000.5\",\"1\"\n";
        let found: Vec<_> = rates(csv).collect();
        assert_eq!(found, [("SET", 80_000.0), ("MSET (10 keys)", 1000.5)]);
        let mut results = KvResults::default();
        for (system, rate) in [(OURS, 90e3), (REDIS, 80e3)] {
            let line = json!({"system": system, "workload": "SET", "depth": 16, "clients": 50, "ops_per_second": rate});
            results.take(TOPIC, &line);
        }
        let text = section(&results);
        assert!(text.contains("| 50 | 16 | SET | 90 | 80 | 1.12 | yes |"), "{text}");
        assert!(text.contains("| 50 | 1 | SET | – | – | – | not measured |"), "{text}");
    }
}

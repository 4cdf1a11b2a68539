//! Tests of `longarm kv`: the server, the shell, figures and revocation.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use support::{Host, Hosts, Running};
use testkit::said;

/// A server with a table without and one with a secret, and the address of its figures.
struct TestServer<'h> {
    hosts: &'h Hosts,
    address: String,
    metrics: String,
    secret: String,
    _process: Running,
}

impl TestServer<'_> {
    fn start(hosts: &Hosts) -> TestServer<'_> {
        let file = hosts.dir().join("secret");
        std::fs::write(&file, "a secret of the test\n").unwrap();
        let secret = file.display().to_string();
        let mut command = hosts.longarm();
        command.args(["kv", "serve", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--table", "default,max-memory=4M"]);
        command.args(["--table", "ordered,layout=tree,max-memory=4M"]);
        command.args(["--table", &format!("orders,layout=hopscotch,max-memory=4M,secret-file={secret}")]);
        let mut process = Running(command.stdout(Stdio::piped()).spawn().expect("the server starts"));
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        let line = lines.next().unwrap();
        let address = line.strip_prefix("listening on ").unwrap().to_owned();
        let line = lines.next().unwrap();
        let metrics = line.strip_prefix("metrics at http://").and_then(|rest| rest.strip_suffix("/metrics"));
        TestServer { hosts, address, metrics: metrics.unwrap().into(), secret, _process: process }
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Output {
        let mut longarm = self.hosts.longarm();
        longarm.args(["kv", command, "--server", &self.address]).args(arguments).output().expect("longarm")
    }

    /// The output of a command of the shell, which must succeed.
    fn cli(&self, words: &[&str]) -> String {
        let output = self.run("cli", words);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }
}

#[test]
fn the_shell_has_every_operation() {
    let hosts = Hosts::one("kv-cli");
    let server = TestServer::start(&hosts);
    let version = server.cli(&["set", "alice", "tuesday"]);
    assert_eq!(server.cli(&["get", "alice"]), "tuesday");
    assert_eq!(server.cli(&["--get", "rpc", "getv", "alice"]), format!("{version}\ntuesday"));
    let next = server.cli(&["cas", "alice", &version, "friday"]);
    assert_ne!(next, version);
    assert_eq!((server.cli(&["incr", "n", "40"]), server.cli(&["decr", "n", "-2"])), ("40".into(), "42".into()));
    server.cli(&["set", "short", "life", "ex", "1000"]);
    let left: f64 = server.cli(&["ttl", "short"]).parse().unwrap();
    assert!(left > 900.0 && left <= 1000.0);
    assert_eq!((server.cli(&["persist", "short"]), server.cli(&["ttl", "short"])), ("1".into(), "-1".into()));
    assert_eq!((server.cli(&["ttl", "none"]), server.cli(&["del", "short", "none"])), ("-2".into(), "1".into()));
    assert_eq!(server.cli(&["mget", "alice", "n"]), "friday\n42");
    assert_eq!(server.cli(&["scan", "ali"]), "alice");
    for key in ["b", "c", "a"] {
        server.cli(&["--table", "ordered", "set", key, "value"]);
    }
    let range = |words: &[&str]| server.cli(&[&["--table", "ordered", "range"], words].concat());
    assert_eq!(range(&["-", "+"]), "a\tvalue\nb\tvalue\nc\tvalue");
    assert_eq!((range(&["a", "c", "1"]), range(&["b", "c"])), ("a\tvalue".into(), "b\tvalue".into()));
    for (words, reason) in [
        (&["range", "a", "b"][..], "has no order"),
        (&["--table", "ordered", "range", "a", "b", "x"], "no number"),
        (&["get", "none"], "absent"),
        (&["cas", "alice", &version, "x"], "another version"),
        (&["cas", "alice", "x", "x"], "no version"),
        (&["set", "alice", "x", "nx"], "another version"),
        (&["set", "none", "x", "xx"], "absent"),
        (&["incr", "alice"], "no whole number"),
        (&["set", "alice"], "no command"),
        (&["--table", "none", "get", "x"], "no table"),
        (&["--table", "orders", "get", "x"], "has a secret"),
    ] {
        let output = server.run("cli", words);
        assert!(!output.status.success() && said(&output).contains(reason), "{words:?}: {}", said(&output));
    }
}

#[test]
fn the_prompt_executes_lines_until_the_input_ends() {
    let hosts = Hosts::one("kv-prompt");
    let server = TestServer::start(&hosts);
    let mut command = hosts.longarm();
    command.args(["kv", "cli", "--server", &server.address]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut prompt = command.stderr(Stdio::piped()).spawn().unwrap();
    prompt.stdin.take().unwrap().write_all(b"set 'a key' \"a value\"\nget none\nget 'a key'\nfigures\n").unwrap();
    let output = prompt.wait_with_output().unwrap();
    let text = said(&output);
    assert!(output.status.success() && text.contains("a value") && text.contains("the key is absent"), "{text}");
    assert!(text.contains("keys: 1,"), "{text}");
}

#[test]
fn figures_are_shown_live_and_to_prometheus() {
    let hosts = Hosts::one("kv-figures");
    let server = TestServer::start(&hosts);
    server.cli(&["set", "alice", "tuesday"]);
    let top = server.run("top", &["--rows", "2", "--every", "0.05"]);
    let text = said(&top);
    assert!(text.contains("one-sided") && text.lines().count() == 3, "{text}");
    // The address is in the namespace of the test's host.
    let script = format!(
        "exec 3<>/dev/tcp/{}; printf 'GET /metrics HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; cat <&3",
        server.metrics.replace(':', "/")
    );
    let output = hosts.command(Host::First, "bash").args(["-c", &script]).output().unwrap();
    let text = said(&output);
    for line in ["HTTP/1.1 200 OK", "# TYPE longarm_kv_puts_total counter", "longarm_kv_keys{table=\"default\"} 1"] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
    assert!(text.contains("longarm_kv_puts_total{table=\"orders\"} 0"), "{text}");
}

#[test]
fn a_tenant_revokes_its_clients() {
    let hosts = Hosts::one("kv-revoke");
    let server = TestServer::start(&hosts);
    let tenant = ["--table", "orders", "--secret-file", &server.secret];
    let words = |rest: &[&'static str]| [&tenant[..], rest].concat();
    server.cli(&words(&["set", "key", "value"]));
    let mut command = hosts.longarm();
    command.args(["kv", "cli", "--server", &server.address]).args(tenant).stdin(Stdio::piped());
    let mut prompt = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = prompt.stdin.take().unwrap();
    let mut stdout = BufReader::new(prompt.stdout.take().unwrap());
    let mut line = String::new();
    stdin.write_all(b"get key\n").unwrap();
    while !line.contains("value") {
        line.clear();
        assert!(stdout.read_line(&mut line).unwrap() > 0, "the prompt ended");
    }
    let clients = server.cli(&words(&["clients"]));
    let number = clients.lines().next().and_then(|line| line.split(' ').next()).unwrap();
    let revoked = server.run("revoke", &[&tenant[..], &["--client", number]].concat());
    assert!(revoked.status.success() && said(&revoked).contains("1 revoked"), "{}", said(&revoked));
    stdin.write_all(b"get key\n").unwrap();
    drop(stdin);
    let output = prompt.wait_with_output().unwrap();
    assert!(said(&output).contains("revoked"), "{}", said(&output));
    let again = server.run("revoke", &[&tenant[..], &["--client", "999"]].concat());
    assert!(!again.status.success() && said(&again).contains("no such client"), "{}", said(&again));
}

#[test]
fn the_demonstration_reads_from_a_stopped_server() {
    let hosts = Hosts::one("kv-demo");
    let output = hosts.longarm().args(["kv", "demo", "--gets", "20000"]).output().expect("longarm");
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    let steps = ["waits", "is STOPPED", "goes on", "waits", "is STOPPED", "goes on", "was KILLED"];
    let mut rest = text.as_str();
    for step in steps.map(|step| format!("the server {step}: 20000 GETs by READs")) {
        rest = rest.split_once(&step).unwrap_or_else(|| panic!("{step} is missing in {text}")).1;
    }
    assert_eq!(text.matches("a PUT meanwhile: no answer").count(), 2, "{text}");
    // `cargo xtask test` installs Redis.
    assert!(text.contains("redis unix") || text.contains("redis-server is not on the PATH"), "{text}");
}

#[test]
fn reads_of_layouts_are_counted_and_drawn() {
    let (hosts, directory) = (Hosts::one("kv-layouts"), tempfile::tempdir().unwrap());
    let file = |name: &str| directory.path().join(name);
    let mut longarm = hosts.longarm();
    longarm.args(["kv", "layouts", "--slots", "4096", "--tables", "1", "--json"]);
    longarm.arg("--plot-occupancy").arg(file("occupancy.svg")).arg("--plot-cache").arg(file("cache.svg"));
    let output = longarm.output().expect("longarm");
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let half =
        |line: &&serde_json::Value| line["layout"] == "cuckoo" && line["over"] == "occupancy" && line["percent"] == 50;
    let reads = lines.iter().find(half).and_then(|line| line["reads"].as_f64()).expect("cuckoo at 50 %");
    assert!((1.2..1.4).contains(&reads), "{reads}");
    for (name, words) in [("occupancy.svg", "cuckoo, published"), ("cache.svg", "hopscotch")] {
        let svg = std::fs::read_to_string(file(name)).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains(words), "{svg}");
    }
    let output = hosts.longarm().args(["kv", "layouts", "--slots", "1024", "--tables", "1"]).output().expect("longarm");
    assert!(output.status.success() && said(&output).contains("(1.008)"), "{}", said(&output));
}

#[test]
fn rates_over_several_sizes_are_drawn() {
    let (hosts, directory) = (Hosts::one("kv-plot"), tempfile::tempdir().unwrap());
    let file = directory.path().join("sizes.svg");
    let mut longarm = hosts.longarm();
    longarm.args(["kv", "bench", "--keys", "500", "--seconds", "0.05", "--system", "kv,kv-rpc", "--workload", "bc"]);
    let output = longarm.args(["--depth", "1", "--size", "64,4K", "--plot"]).arg(&file).output().expect("longarm");
    assert!(output.status.success() && said(&output).contains("4 KiB"), "{}", said(&output));
    let svg = std::fs::read_to_string(file).unwrap();
    assert!(["longarm rpc, B", "longarm cluster, C"].iter().all(|line| svg.contains(line)), "{svg}");
    let refused = hosts.longarm().args(["kv", "bench", "--size", "64,5M"]).output().expect("longarm");
    assert!(!refused.status.success() && said(&refused).contains("up to 4 MiB"), "{}", said(&refused));
}

#[test]
fn puts_alone_are_measured_beside_requests_with_clients_and_loads() {
    let hosts = Hosts::one("kv-puts");
    let bench = |arguments: &str| {
        let mut longarm = hosts.longarm();
        longarm.args(["kv", "bench", "--json", "--keys", "500", "--seconds", "0.05", "--depth", "1"]);
        longarm.args(arguments.split(' ')).output().expect("longarm")
    };
    let measured = |arguments: &str| {
        let output = bench(arguments);
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (alone, by_rpc): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|line| line["system"] == "longarm cluster alone");
        (by_rpc, alone, said(&output))
    };
    let (by_rpc, mut alone, text) =
        measured("--system kv --put rpc,one-sided --reads 0,50 --clients 1,2 --server-load 0,1");
    assert_eq!((by_rpc.len(), alone.len()), (2 * 2 * 2, 2 * 2 * 2), "{text}");
    assert!(by_rpc.iter().all(|line| line["puts_alone"] == 0), "{text}");
    // PUTs by RPC need a server that runs.
    let (by_rpc, stopped, text) = measured("--system kv --put rpc,one-sided --reads 50 --server-load stopped");
    assert!(by_rpc.is_empty() && text.contains("it asks the server, which is stopped"), "{text}");
    assert!(stopped.len() == 1 && stopped[0]["server_load"] == "stopped", "{text}");
    alone.extend(stopped);
    for line in alone {
        let (ops, puts) = (line["ops"].as_u64().unwrap(), line["puts_alone"].as_u64().unwrap());
        // Those that meet another client's lock for long go by request.
        assert!(puts > 0 && puts <= ops && (line["workload"] != "0" || puts > ops / 2), "{line}");
        assert!(line["missing"] == 0 && line["ops_per_second"].as_f64() > Some(0.0), "{line}");
    }
    for (arguments, reason) in [
        ("--system kv-rpc --put one-sided", "not for longarm rpc"),
        ("--system kv-tree --put rpc,one-sided", "not for longarm tree"),
        ("--put two-sided", "rpc or one-sided"),
        ("--reads 101", "101"),
        ("--reads 50 --workload a", "cannot be used with"),
        ("--server-load busy", "give `stopped`, or a number"),
    ] {
        let output = bench(arguments);
        assert!(!output.status.success() && said(&output).contains(reason), "{arguments}: {}", said(&output));
    }
}

#[test]
fn workloads_are_measured_and_peers_that_are_missing_are_named() {
    let hosts = Hosts::one("kv-bench");
    let bench = |arguments: &str| {
        let mut longarm = hosts.longarm();
        longarm.args(["kv", "bench", "--keys", "2000", "--seconds", "0.05"]).args(arguments.split(' '));
        longarm.output().expect("longarm")
    };
    let output = bench("--json --depth 4 --clients 2 --system kv,kv-rpc,kv-hopscotch,kv-cuckoo");
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4 * 5, "{text}");
    for line in &lines {
        assert!(line["ops"].as_u64() > Some(0) && line["ops_per_second"].as_f64() > Some(0.0), "{line}");
        // Another client may have chosen a key that it has not put yet.
        assert!(line["workload"] == "d" || line["missing"] == 0, "{line}");
        let by_rpc = line["system"] == "longarm rpc";
        assert_eq!(line["reads_per_op"].as_f64() > Some(0.0), !by_rpc, "{line}");
    }
    let beside = bench("--workload a --depth 4 --system kv,redis,redis-tcp,valkey,memcached,memcached-tcp");
    assert!(beside.status.success(), "{}", said(&beside));
    for (program, systems) in
        [("redis-server", ["redis unix", "redis tcp"]), ("memcached", ["memcached unix", "memcached tcp"])]
    {
        let is_there =
            std::env::split_paths(&std::env::var_os("PATH").unwrap()).any(|path| path.join(program).exists());
        for system in systems {
            let text = said(&beside);
            assert_eq!(!text.contains(&format!("{system}: not measured")), is_there, "{text}");
            assert!(text.contains(system), "{text}");
        }
    }
    for (arguments, reason) in [
        ("--workload e", "ranges of keys"),
        ("--system sled", "lists the systems"),
        ("--depth 0", "give numbers from 1 to 1024"),
        ("--keys-by chance", "zipfian or uniform"),
        ("--size 5M", "up to 4 MiB"),
    ] {
        let output = bench(arguments);
        assert!(!output.status.success() && said(&output).contains(reason), "{arguments}: {}", said(&output));
    }
}

/// A server with its table on disk, and the address at which it listens.
fn start_on_disk(hosts: &Hosts) -> (Running, String) {
    let mut command = hosts.longarm();
    command.args(["kv", "serve", "127.0.0.1:0", "--resp", "127.0.0.1:0", "--metrics", "127.0.0.1:0"]);
    command.arg("--data").arg(hosts.dir().join("data")).stdout(Stdio::piped());
    let mut process = Running(command.spawn().expect("the server starts"));
    let mut lines = BufReader::new(process.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.next().unwrap().strip_prefix("listening on ").unwrap().to_owned();
    lines.find(|line| line.starts_with("metrics at")).expect("the server is ready");
    (process, address)
}

fn prompt(hosts: &Hosts, server: &str, lines: &str) -> String {
    let mut command = hosts.longarm();
    command.args(["kv", "cli", "--server", server]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut prompt = command.stderr(Stdio::piped()).spawn().unwrap();
    prompt.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = prompt.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

#[test]
fn a_server_that_is_told_to_end_keeps_all_changes() {
    let hosts = Hosts::one("kv-signals");
    for (life, signal) in [Signal::TERM, Signal::INT].into_iter().enumerate() {
        let (mut process, address) = start_on_disk(&hosts);
        let lines: String = (0..200).map(|key| format!("set {life}-{key} value-{key}\n")).collect();
        prompt(&hosts, &address, &lines);
        let pid = Pid::from_child(&process.0);
        kill_process(pid, signal).unwrap();
        assert_eq!(process.0.wait().unwrap().code(), Some(0), "{signal:?} ends it in order");
    }
    let (_process, address) = start_on_disk(&hosts);
    let keys = (0..2).flat_map(|life| (0..200).map(move |key| format!("get {life}-{key}\n")));
    let said = prompt(&hosts, &address, &keys.collect::<String>());
    assert_eq!(said.lines().filter(|line| line.contains("value-")).count(), 400, "{said}");
}

//! The guide from one server to three (docs/cluster-guide.md), with a real etcd: servers come, get slots, are drained and leave.

mod support;

use std::process::{Output, Stdio};

use support::{Host, Hosts, Running, first_line};
use testkit::{said, wait_until};

const ETCD: &str = "http://127.0.0.1:2379/shop";
const ALL: &str = "127.0.0.1:7521,127.0.0.1:7522,127.0.0.1:7523";

/// The port of a door for Redis clients, above that of its server.
const DOORS: u16 = 100;

fn doors() -> String {
    [("a", 7521), ("b", 7522), ("c", 7523)].map(|(name, port)| format!("{name}=127.0.0.1:{}", port + DOORS)).join(",")
}

struct TestCluster {
    hosts: Hosts,
    secret: String,
    _etcd: Running,
}

impl TestCluster {
    fn start(name: &str) -> TestCluster {
        let hosts = Hosts::one(name);
        let secret = hosts.dir().join("cluster-secret");
        std::fs::write(&secret, "a secret of all members\n").unwrap();
        let mut etcd = hosts.command(Host::First, "etcd");
        etcd.arg("--data-dir").arg(hosts.dir().join("etcd")).args(["--log-level", "error", "--unsafe-no-fsync"]);
        etcd.stdout(Stdio::null()).stderr(Stdio::null());
        let etcd = Running(etcd.spawn().expect("etcd starts: `cargo xtask packages` installs it"));
        TestCluster { secret: secret.display().to_string(), hosts, _etcd: etcd }
    }

    fn member(&self, name: &str, port: u16) -> Running {
        self.member_with(name, port, &[])
    }

    fn member_with(&self, name: &str, port: u16, options: &[&str]) -> Running {
        let mut command = self.hosts.longarm();
        command.args(["kv", "serve", &format!("127.0.0.1:{port}"), "--etcd", ETCD, "--name", name, "--form-with", "2"]);
        command.args(["--resp", &format!("127.0.0.1:{}", port + DOORS), "--resp-doors", &doors()]);
        command.args(["--cluster-secret-file", &self.secret, "--table", "default,max-memory=16M"]);
        command.args(options);
        let mut member = Running(command.stdout(Stdio::piped()).spawn().expect("the server starts"));
        assert!(first_line(&mut member.0).contains("listening"));
        member
    }

    fn run(&self, command: &str, arguments: &[&str]) -> Output {
        self.hosts.longarm().args(["kv", command, "--server", ALL]).args(arguments).output().expect("longarm")
    }

    /// The words of redis-cli at one of the doors; it follows to the others.
    fn redis(&self, port: u16, words: &[&str]) -> String {
        let mut command = self.hosts.command(Host::First, "redis-cli");
        command.args(["-p", &(port + DOORS).to_string(), "-c"]).args(words);
        String::from_utf8_lossy(&command.output().expect("redis-cli: `cargo xtask packages` installs it").stdout)
            .trim()
            .into()
    }

    fn get(&self, key: &str) -> String {
        let output = self.run("cli", &["get", key]);
        assert!(output.status.success(), "{key}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// An order that must be carried out.
    fn order(&self, command: &str, arguments: &[&str]) -> String {
        let output = self.run(command, &[arguments, &["--cluster-secret-file", &self.secret]].concat());
        let text = said(&output);
        assert!(output.status.success() && text.contains("done"), "{command} {arguments:?}: {text}");
        text
    }
}

#[test]
fn servers_come_and_leave() {
    let cluster = TestCluster::start("kv-servers-come-and-leave");
    let first = cluster.member("a", 7521);
    let alone = cluster.hosts.longarm().args(["kv", "status", "--server", "127.0.0.1:7521"]).output().unwrap();
    assert!(!alone.status.success() && said(&alone).contains("no configuration yet"), "{}", said(&alone));
    let _second = cluster.member("b", 7522);
    wait_until("the cluster is formed", || cluster.run("cli", &["set", "alice", "tuesday"]).status.success());
    for number in 0..30 {
        let (key, value) = (format!("key-{number}"), number.to_string());
        assert!(cluster.run("cli", &["set", &key, &value]).status.success());
    }
    let _third = cluster.member("c", 7523);
    wait_until("it joins", || said(&cluster.run("status", &[])).contains("3 servers"));
    // Orders need the secret, and a member of that name.
    for (arguments, words) in [(vec![], "secret"), (vec!["--cluster-secret-file", "/etc/hostname"], "secret")] {
        let refused = cluster.run("rebalance", &arguments);
        assert!(!refused.status.success() && said(&refused).contains(words), "{}", said(&refused));
    }
    let nobody = cluster.run("drain", &["z", "--cluster-secret-file", &cluster.secret]);
    assert!(!nobody.status.success() && said(&nobody).contains("no member"), "{}", said(&nobody));
    let even = cluster.order("rebalance", &[]);
    assert!(even.contains("c 5461") || even.contains("c 5462"), "{even}");
    cluster.order("drain", &["a"]);
    let status = said(&cluster.run("status", &[]));
    assert!(status.contains("a 127.0.0.1:7521: no slots"), "{status}");
    drop(first);
    assert_eq!(cluster.get("alice"), "tuesday");
    for number in 0..30 {
        assert_eq!(cluster.get(&format!("key-{number}")), number.to_string());
    }
}

/// Clients of Redis find another server when theirs is killed, and all that it had answered.
#[test]
fn redis_clients_lose_nothing_when_a_server_is_killed() {
    let cluster = TestCluster::start("kv-redis-clients-lose-nothing");
    let first = cluster.member("a", 7521);
    let _second = cluster.member("b", 7522);
    wait_until("the cluster is formed", || cluster.redis(7521, &["set", "alice", "tuesday"]) == "OK");
    let backed_up =
        || ["backups: a", "backups: b"].iter().all(|words| said(&cluster.run("status", &[])).contains(words));
    wait_until("each server has a backup", backed_up);
    for number in 0..40 {
        let (key, value) = (format!("key-{number}"), number.to_string());
        assert_eq!(cluster.redis(7521 + number % 2, &["set", &key, &value]), "OK");
    }
    assert!(cluster.redis(7522, &["cluster", "slots"]).contains("7621"));
    drop(first);
    wait_until("the other serves all slots", || {
        (0..40).all(|number| cluster.redis(7522, &["get", &format!("key-{number}")]) == number.to_string())
    });
    assert_eq!(cluster.redis(7522, &["get", "alice"]), "tuesday");
    assert_eq!(cluster.redis(7522, &["incr", "count"]), "1");
    assert_eq!(cluster.get("key-7"), "7");
}

/// A power cut for all servers at once: they come back with their disks, and all that they had answered.
#[test]
fn a_cluster_on_disks_comes_back_whole() {
    let cluster = TestCluster::start("kv-cluster-on-disks-comes-back");
    let data = |name: &str| cluster.hosts.dir().join(name).display().to_string();
    let start = |name: &str, port| cluster.member_with(name, port, &["--data", &data(name), "--fsync", "always"]);
    let members = [start("a", 7521), start("b", 7522)];
    wait_until("the cluster is formed", || cluster.redis(7521, &["set", "alice", "tuesday"]) == "OK");
    for number in 0..40 {
        let (key, value) = (format!("key-{number}"), number.to_string());
        assert_eq!(cluster.redis(7521 + number % 2, &["set", &key, &value]), "OK");
    }
    drop(members);
    for name in ["a", "b"] {
        let check = cluster.hosts.longarm().args(["kv", "check", &data(name)]).output().expect("longarm");
        assert!(check.status.success(), "{}", said(&check));
    }
    // The directory belongs to a member of that name.
    for (options, words) in [(&[][..], "belongs to the member \"a\""), (&["--etcd", ETCD, "--name", "b"], "not \"b\"")]
    {
        let mut server = cluster.hosts.longarm();
        let refused = server.args(["kv", "serve", "127.0.0.1:7529", "--data", &data("a")]).args(options).output();
        let refused = refused.expect("longarm");
        assert!(!refused.status.success() && said(&refused).contains(words), "{}", said(&refused));
    }
    let _members = [start("b", 7522), start("a", 7521)];
    wait_until("they serve again", || cluster.redis(7522, &["get", "alice"]) == "tuesday");
    for number in 0..40 {
        let key = format!("key-{number}");
        wait_until("all keys are served", || cluster.redis(7521, &["get", &key]) == number.to_string());
    }
    assert_eq!(cluster.redis(7521, &["incr", "key-7"]), "8");
}

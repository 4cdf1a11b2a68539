//! `longarm kv import-rdb` and `longarm kv serve --import-rdb`, with files that a real Redis has written.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Output, Stdio};

use support::{Host, Hosts, Running};
use testkit::{said, wait_until};

/// Commands for Redis, and a file of what it has then.
fn dump(hosts: &Hosts, name: &str, commands: &str) -> PathBuf {
    let file = hosts.dir().join(name);
    let mut redis = hosts.command(Host::First, "redis-server");
    redis.args(["--port", "6379", "--save", "", "--dbfilename", name, "--dir"]).arg(hosts.dir());
    let mut redis = Running(redis.stdout(Stdio::null()).spawn().expect("Debian's package redis-server"));
    let cli = |words: &[&str]| hosts.command(Host::First, "redis-cli").args(words).output().expect("redis-cli");
    wait_until("redis-server answers", || said(&cli(&["ping"])).contains("PONG"));
    let mut script = hosts.command(Host::First, "redis-cli");
    let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("redis-cli");
    script.stdin.take().unwrap().write_all(commands.as_bytes()).unwrap();
    let output = script.wait_with_output().unwrap();
    assert!(!said(&output).contains("ERR"), "{}", said(&output));
    assert!(said(&cli(&["save"])).contains("OK"));
    redis.kill();
    file
}

/// A server with these options, and its address.
fn serve(hosts: &Hosts, options: &[&str]) -> (Running, String) {
    let mut command = hosts.longarm();
    command.args(["kv", "serve", "127.0.0.1:0"]).args(options).stdout(Stdio::piped());
    let mut process = Running(command.spawn().expect("the server starts"));
    let lines = BufReader::new(process.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut address = String::new();
    for line in lines {
        if let Some(found) = line.strip_prefix("listening on ") {
            address = found.into();
        }
        // An import follows it.
        if line.contains("keys imported") || !options.contains(&"--import-rdb") {
            break;
        }
    }
    (process, address)
}

#[test]
fn files_of_redis_fill_tables() {
    let hosts = Hosts::one("kv-import");
    let long = "abcdefg".repeat(300);
    let commands = format!("set alice tuesday\nset n 12\nset long {long}\nset soon x ex 1000\nset gone x px 1\n");
    let file = dump(&hosts, "strings.rdb", &commands);
    let mixed =
        dump(&hosts, "mixed.rdb", "set alice friday\nrpush list a\nsadd set a\nsadd set2 b\nselect 3\nset bob y\n");
    let (_first, filled) = serve(&hosts, &["--import-rdb", &file.display().to_string()]);
    let (_second, empty) = serve(&hosts, &[]);
    let run = |server: &str, words: &[&str]| -> Output {
        hosts.longarm().args(["kv", words[0], "-s", server]).args(&words[1..]).output().expect("longarm")
    };
    let get = |server: &str, key: &str| said(&run(server, &["cli", "get", key])).trim_end().to_owned();

    let done = run(&empty, &["import-rdb", &file.display().to_string()]);
    // Redis may have removed the key that was to live for a millisecond.
    assert!(done.status.success() && said(&done).contains(": 4 keys imported, "), "{}", said(&done));
    for server in [&filled, &empty] {
        assert_eq!(
            (get(server, "alice"), get(server, "n"), get(server, "long")),
            ("tuesday".into(), "12".into(), long.clone())
        );
        let left: f64 = said(&run(server, &["cli", "ttl", "soon"])).trim().parse().unwrap();
        assert!(left > 0.0 && left <= 1000.0, "{left}");
        assert!(get(server, "gone").contains("absent"));
    }

    let import = |words: &[&str]| run(&empty, &[&["import-rdb", &mixed.display().to_string()], words].concat());
    for (words, reason) in [
        (&["--database", "0"][..], "1 of type list, 2 of type set. --skip-other-types leaves them out"),
        (&["--skip-other-types"], "keys in the databases 0 and 3: --database chooses one"),
    ] {
        let refused = import(words);
        assert!(!refused.status.success() && said(&refused).contains(reason), "{}", said(&refused));
        assert_eq!(get(&empty, "alice"), "tuesday", "nothing was changed");
    }
    let done = import(&["--skip-other-types", "--database", "0"]);
    assert!(done.status.success() && said(&done).contains("left out: 2 of type set"), "{}", said(&done));
    assert_eq!(get(&empty, "alice"), "friday");
    assert!(get(&empty, "bob").contains("absent"));

    let mut bytes = std::fs::read(&file).unwrap();
    let (middle, last) = (bytes.len() / 2, bytes.len() - 1);
    bytes[last] ^= 1;
    for (bytes, reason) in [(&bytes[..], "damaged"), (&bytes[..middle], "torn"), (b"x".as_slice(), "no RDB file")] {
        let wrong = hosts.dir().join("wrong.rdb");
        std::fs::write(&wrong, bytes).unwrap();
        let refused = run(&filled, &["import-rdb", &wrong.display().to_string()]);
        assert!(!refused.status.success() && said(&refused).contains(reason), "{reason}: {}", said(&refused));
    }
}

#[test]
fn a_file_is_spread_over_a_cluster() {
    let hosts = Hosts::one("kv-import-cluster");
    let commands: String = (0..50).map(|number| format!("set key{number} {number}\n")).collect();
    let file = dump(&hosts, "dump.rdb", &commands);
    let all = "a=127.0.0.1:7480,b=127.0.0.1:7481";
    let member = |name: &str, port: &str| {
        let mut command = hosts.longarm();
        command.args(["kv", "serve", port, "--cluster", all, "--name", name]).stdout(Stdio::piped());
        let mut process = Running(command.spawn().expect("the server starts"));
        assert!(support::first_line(&mut process.0).starts_with("listening on "));
        process
    };
    let (a, _b) = (member("a", "127.0.0.1:7480"), member("b", "127.0.0.1:7481"));
    let done = hosts.longarm().args(["kv", "import-rdb", "-s", "127.0.0.1:7481"]).arg(&file).output().unwrap();
    assert!(done.status.success() && said(&done).contains(": 50 keys imported"), "{}", said(&done));
    let keys = |server: &str| {
        let scan = hosts.longarm().args(["kv", "cli", "-s", server, "scan"]).output().unwrap();
        String::from_utf8(scan.stdout).unwrap().lines().filter(|line| line.starts_with("key")).count()
    };
    let (first, second) = (keys("127.0.0.1:7480"), keys("127.0.0.1:7481"));
    assert!(first > 0 && second > 0 && first + second == 50, "{first} and {second}");
    let status = || hosts.longarm().args(["kv", "status", "-s", "127.0.0.1:7481"]).output().unwrap();
    let told = said(&status());
    for words in [
        "epoch 1, 2 servers".into(),
        format!("a 127.0.0.1:7480: slots 0-8191, {first} keys"),
        format!("b 127.0.0.1:7481: slots 8192-16383, {second} keys"),
    ] {
        assert!(told.contains(&words), "{words}: {told}");
    }
    drop(a);
    let status = status();
    assert!(!status.status.success() && said(&status).contains("no answer from a"), "{}", said(&status));
}

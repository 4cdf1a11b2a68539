//! Tests of `longarm memory`: the server, its regions, its figures.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Output, Stdio};

use support::{Hosts, Running};
use testkit::said;

#[test]
fn regions_are_made_written_read_listed_and_dropped() {
    let hosts = Hosts::one("memory-cli");
    let file = hosts.dir().join("secret");
    std::fs::write(&file, "a secret of the test\n").unwrap();
    let secret = file.display().to_string();
    let mut command = hosts.longarm();
    command.args(["memory", "serve", "127.0.0.1:0", "--size", "16M", "--metrics", "127.0.0.1:0", "--tenant", "open"]);
    command.args(["--tenant", &format!("lab,max-memory=1M,secret-file={secret}")]);
    let mut server = Running(command.stdout(Stdio::piped()).spawn().expect("the server starts"));
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = lines.next().unwrap().strip_prefix("listening on ").unwrap().to_owned();
    let metrics = lines.next().unwrap();
    assert!(metrics.starts_with("metrics at http://"), "{metrics}");
    let run = |words: &[&str], input: &[u8]| -> Output {
        let mut longarm = hosts.longarm();
        longarm.arg("memory").arg(words[0]).args(["--server", &address]).args(&words[1..]);
        let mut child = longarm.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    };
    let works = |words: &[&str], input: &[u8]| {
        let output = run(words, input);
        assert!(output.status.success(), "{words:?}: {}", said(&output));
        output.stdout
    };
    let owner = ["--tenant", "lab", "--secret-file", &secret];
    works(&[&["create"][..], &owner, &["log", "64K"]].concat(), b"");
    works(&[&["write"][..], &owner, &["log", "--at", "10"]].concat(), b"hello");
    let bytes = works(&[&["read"][..], &owner, &["log", "--at", "9", "--len", "7"]].concat(), b"");
    assert_eq!(bytes, b"\0hello\0");
    assert_eq!(works(&[&["read"][..], &owner, &["log"]].concat(), b"").len(), 64 << 10);
    let list = String::from_utf8(works(&[&["ls"][..], &owner].concat(), b"")).unwrap();
    assert!(list.lines().nth(1).is_some_and(|line| line.starts_with("log ") && line.contains("65536")), "{list}");
    for (words, why) in [
        (&["ls", "--tenant", "lab"][..], "did not prove"),
        (&["create", "--tenant", "open", "x", "32M"], "no room"),
        (&["read", "--tenant", "open", "none"], "no region"),
        (&[&["read"][..], &owner, &["log", "--len", "65K"]].concat(), "65536 bytes"),
    ] {
        let output = run(words, b"");
        assert!(!output.status.success() && said(&output).contains(why), "{words:?}: {}", said(&output));
    }
    works(&[&["drop"][..], &owner, &["log"]].concat(), b"");
    let list = String::from_utf8(works(&[&["ls"][..], &owner].concat(), b"")).unwrap();
    assert_eq!(list.lines().count(), 1, "{list}");
}

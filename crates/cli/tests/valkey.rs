//! The door for Valkey's RDMA protocol, with a client of our own in C: `valkey/client.c`.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use support::{Host, Hosts, Running};
use testkit::{must_succeed, said};

/// A server with a door for both protocols, and the client.
struct Valkey {
    hosts: Hosts,
    _server: Running,
}

impl Valkey {
    fn start(name: &str) -> Valkey {
        let hosts = Hosts::one(name);
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/valkey/client.c");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-O2", "-Wall", "-Werror", source, "-lrdmacm", "-libverbs", "-o"])
            .arg(hosts.dir().join("client"));
        must_succeed(&mut compiler);
        let mut command = hosts.longarm();
        command.args(["kv", "serve", "127.0.0.1:0", "--resp", "127.0.0.1:6379", "--valkey-rdma", "127.0.0.1:6379"]);
        let mut server = Running(command.stdout(Stdio::piped()).spawn().expect("the server starts"));
        let lines = BufReader::new(server.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        let told = lines.take_while(|line| !line.starts_with("Valkey clients by RDMA at 127.0.0.1:6379")).count();
        assert_eq!(told, 2, "the lines of the server");
        Valkey { hosts, _server: server }
    }

    /// Runs the client with packets or shared memory, and these bytes as its input.
    fn client(&self, is_wire: bool, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = self.hosts.longarm();
        command.arg("run").args(is_wire.then_some("--wire")).arg("--").arg(self.hosts.dir().join("client"));
        command.arg("6379").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("longarm run");
        let mut stdin = child.stdin.take().unwrap();
        // It reads all of it before it sends any.
        stdin.write_all(input).unwrap();
        drop(stdin);
        child.wait_with_output().unwrap()
    }
}

fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[test]
fn requests_and_replies_fill_both_buffers_many_times() {
    let valkey = Valkey::start("valkey-talk");
    let long: Vec<u8> = (0..1_000_000_u32).map(|at| (at * 7 % 251) as u8).collect();
    let mut input = [request(&[b"SET", b"long", &long]), request(&[b"GET", b"long"])].concat();
    let mut wanted = [b"+OK\r\n$1000000\r\n".as_slice(), &long, b"\r\n"].concat();
    for number in 0..3000 {
        let text = number.to_string();
        input.extend(request(&[b"ECHO", text.as_bytes()]));
        wanted.extend(format!("${}\r\n{text}\r\n", text.len()).into_bytes());
    }
    input.extend(request(&[b"QUIT"]));
    wanted.extend(b"+OK\r\n");
    for (is_wire, rx_bytes) in [(false, "1000"), (false, "65536"), (true, "65536")] {
        let output = valkey.client(is_wire, &[rx_bytes], &input);
        assert!(output.status.success(), "{}", said(&output));
        assert!(output.stdout == wanted, "{rx_bytes}: {} bytes, not {}", output.stdout.len(), wanted.len());
    }
    // Clients over TCP see the same.
    let tcp = valkey.hosts.command(Host::First, "redis-cli").args(["strlen", "long"]).output().unwrap();
    assert_eq!(said(&tcp).trim(), "1000000");
}

#[test]
fn clients_that_break_the_protocol_are_cut_off_and_others_served() {
    let valkey = Valkey::start("valkey-hostile");
    for fault in ["opcode", "short", "long", "empty", "feature", "key", "overflow", "beyond", "garbage"] {
        let output = valkey.client(false, &["65536", fault], b"");
        assert!(output.status.success() && output.stdout.ends_with(b"ended\n"), "{fault}: {}", said(&output));
        let output = valkey.client(false, &["65536"], &[request(&[b"PING"]), request(&[b"QUIT"])].concat());
        assert_eq!(said(&output), "+PONG\r\n+OK\r\n", "after {fault}");
    }
    testkit::wait_until("the server has forgotten all of them", || {
        let info = valkey.hosts.command(Host::First, "redis-cli").args(["info", "clients"]).output().unwrap();
        said(&info).contains("connected_clients:1\r")
    });
}

//! Runs the examples as a user would: a process for each side, a hub and a network namespace of their own.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Runs `body` with a hub and a network namespace of its own. To be called from the test function of that name itself.
fn alone(test: &str, body: impl FnOnce()) {
    if testkit::role().is_some() {
        return body();
    }
    binary("greeter");
    hub::testing::passes_with_hub(&format!("typed-{test}"), testkit::run_again(test, "body"));
}

/// The path of an example. All examples are built first if they are not up to date.
fn binary(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| testkit::build_examples(&["by_name", "echo", "fan_out", "greeter", "world"], &[])).join(name)
}

/// A server, which ends with this value, and its addresses.
struct ServerProcess(Child, Vec<String>);

impl ServerProcess {
    fn start(example: &str, addresses: &[&str]) -> ServerProcess {
        let mut command = Command::new(binary(example));
        let mut child = command.arg("serve").args(addresses).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(addresses.len());
        let listening =
            |line: String| line.strip_prefix("listening at ").unwrap_or_else(|| panic!("{line}")).to_owned();
        let listens_at = lines.map(|line| listening(line.unwrap())).collect();
        ServerProcess(child, listens_at)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of an example.
fn said(example: &str, arguments: &[&str]) -> String {
    let output = testkit::must_succeed(Command::new(binary(example)).args(arguments));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_service_answers_in_two_ways() {
    alone("one_service_answers_in_two_ways", || {
        let server = ServerProcess::start("greeter", &["rdma://127.0.0.1:0", "grpc://127.0.0.1:0"]);
        for (count, address) in (1..).step_by(2).zip(&server.1) {
            assert_eq!(said("greeter", &["call", address, "Ada"]), format!("Hello Ada!\ngreetings so far: {count}\n"));
            let json = r#"{"name": "Bob", "politeness": "FORMAL"}"#;
            let reply = said("by_name", &["call", address, "greeter.Greeter/SayHello", json]);
            assert_eq!(reply, "{\n  \"greeting\": \"Good day, Bob.\"\n}\n");
            assert!(said("by_name", &["list", address]).starts_with("greeter.Greeter\n  /greeter.Greeter/SayHello\n"));
            let described = said("by_name", &["describe", address, "greeter.Greeter"]);
            assert!(described.contains("rpc SayHello(greeter.HelloRequest) returns (greeter.HelloReply);"));
        }
    });
}

#[test]
fn a_service_of_tarpc_answers() {
    alone("a_service_of_tarpc_answers", || {
        for address in ["rdma://127.0.0.1:0", "grpc://127.0.0.1:0"] {
            let server = ServerProcess::start("world", &[address]);
            assert_eq!(said("world", &["call", &server.1[0], "Ada"]), "Hello Ada!\n");
        }
    });
}

#[test]
fn bytes_come_back_over_every_way() {
    alone("bytes_come_back_over_every_way", || {
        let output = said("echo", &[]);
        for way in ["ring", "herd", "datagram", "immediate", "fetch"] {
            assert!(output.contains(&format!("{way}: b\"hello\" came back")), "{output}");
        }
    });
}

#[test]
fn sixteen_shards_answer_one_question() {
    alone("sixteen_shards_answer_one_question", || {
        // The multiples of 7 below 160,000, with 0.
        let output = said("fan_out", &["--divisor", "7"]);
        assert!(output.starts_with("22858 numbers, from 16 of 16 shards, in "), "{output}");
        assert_eq!(output.lines().count(), 1, "{output}");
    });
}

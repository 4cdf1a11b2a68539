//! Runs the examples as a user would: a process for each side, a hub and a network namespace of their own.

mod support;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use support::PeerProcess;

/// Runs `body` with a hub and a network namespace of its own. To be called from the test function of that name itself.
fn alone(test: &str, body: impl FnOnce()) {
    if testkit::role().is_some() {
        return body();
    }
    binary("http");
    hub::testing::passes_with_hub(&format!("stream-{test}"), testkit::run_again(test, "body"));
}

/// The path of an example. All examples are built first if they are not up to date.
fn binary(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            testkit::build_examples(&["forward", "grpc", "http", "redis_client"], &["longarm-stream/tonic"])
        })
        .join(name)
}

/// A server, and the address that it says it listens at.
fn server(command: &mut Command) -> (PeerProcess, String) {
    let mut server = PeerProcess(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("{line}")).to_owned();
    (server, address)
}

fn said(command: &mut Command) -> String {
    String::from_utf8(testkit::must_succeed(command).stdout).unwrap()
}

#[test]
fn grpc_with_tonic() {
    alone("grpc_with_tonic", || {
        let (_server, address) = server(Command::new(binary("grpc")).args(["--listen", "127.0.0.1:0"]));
        let answer = said(Command::new(binary("grpc")).args(["--connect", &address, "Ada"]));
        assert_eq!(answer, "Hello Ada!\nand 1000 times more\n");
    });
}

#[test]
fn http_with_axum_and_hyper() {
    alone("http_with_axum_and_hyper", || {
        let (_server, address) = server(Command::new(binary("http")).args(["--listen", "127.0.0.1:0"]));
        let ask = |arguments: &[&str]| said(Command::new(binary("http")).args(["--connect", &address]).args(arguments));
        assert_eq!(ask(&["/hello/Ada"]), "Hello Ada!\n");
        assert_eq!(ask(&["/count", "--post", "30000000"]), "30000000 bytes\n");
    });
}

#[test]
fn redis_behind_a_forwarder() {
    alone("redis_behind_a_forwarder", || {
        let place = testkit::TestDir::new("stream-redis");
        let mut redis = Command::new("redis-server");
        redis.args(["--port", "6379", "--save", "", "--dir"]).arg(place.path()).stdout(Stdio::null());
        let _redis = PeerProcess(redis.spawn().expect("redis-server is installed (Debian package redis-server)"));
        testkit::wait_until("redis-server listens", || std::net::TcpStream::connect("127.0.0.1:6379").is_ok());
        let (_before, rdma) = server(Command::new(binary("forward")).args(["rdma:127.0.0.1:0", "tcp:127.0.0.1:6379"]));
        let expected = "the answer is 43, and 1048576 of 1048576 bytes came back\n1000 commands in one go\n";
        assert_eq!(said(Command::new(binary("redis_client")).arg(&rdma)), expected);
        // And back: a program that knows TCP alone reaches the server by RDMA.
        let (_behind, tcp) = server(Command::new(binary("forward")).args(["tcp:127.0.0.1:0", &format!("rdma:{rdma}")]));
        let port = tcp.rsplit(':').next().unwrap();
        assert_eq!(said(Command::new("redis-cli").args(["-p", port, "get", "answer"])), "43\n");
    });
}

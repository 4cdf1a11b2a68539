//! Runs the examples as a user would: a process for each side.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The path of an example. All examples are built first if they are not up to date.
fn binary(name: &str) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(build).join(name)
}

fn build() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let profile = here.ancestors().nth(2).expect("tests lie in TARGET/PROFILE/deps");
    let name = profile.file_name().and_then(|name| name.to_str()).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--examples", "--package", "longarm-rpc-examples", "--profile"]);
    cargo.arg(if name == "debug" { "dev" } else { name }).env("CARGO_TARGET_DIR", profile.parent().unwrap());
    testkit::must_succeed(&mut cargo);
    profile.join("examples")
}

/// A server, which ends with this value, and its address.
struct ServerProcess(Child, String);

impl ServerProcess {
    fn start(example: &str) -> ServerProcess {
        let mut command = Command::new(binary(example));
        let mut child = command.args(["serve", "grpc://127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening at ").unwrap_or_else(|| panic!("{line}")).to_owned();
        ServerProcess(child, address)
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
fn a_typed_client_and_json_reach_one_server() {
    let server = ServerProcess::start("greeter");
    assert_eq!(said("greeter", &["call", &server.1, "Ada"]), "Hello Ada!\ngreetings so far: 1\n");
    let json = r#"{"name": "Bob", "politeness": "FORMAL"}"#;
    let reply = said("by_name", &["call", &server.1, "greeter.Greeter/SayHello", json]);
    assert_eq!(reply, "{\n  \"greeting\": \"Good day, Bob.\"\n}\n");
    assert!(said("by_name", &["list", &server.1]).starts_with("greeter.Greeter\n  /greeter.Greeter/SayHello\n"));
    let described = said("by_name", &["describe", &server.1, "greeter.Greeter"]);
    assert!(described.contains("rpc SayHello(greeter.HelloRequest) returns (greeter.HelloReply);"), "{described}");
}

#[test]
fn a_service_of_tarpc_answers() {
    let server = ServerProcess::start("world");
    assert_eq!(said("world", &["call", &server.1, "Ada"]), "Hello Ada!\n");
}

//! Streams of `longarm-stream` whose peer is a program in C with rsockets, `c/stream_peer.c`.

#[path = "support/mod.rs"]
mod support;

use std::future::Future;
use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Child, Command, Stdio};

use stream::{RdmaListener, RdmaStream};
use support::{ProgramDir, must_succeed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PROGRAM: &str = "STREAM_TEST_PROGRAM";
const BYTES: usize = 3 << 20;

/// Compiles the program, and runs `body` on a runtime in a network namespace with the program at hand. To be called from
/// the test function of that name itself; `local` is LONGARM_LOCAL.
fn beside_the_program<F: Future<Output = ()>>(test: &str, local: &str, body: impl FnOnce() -> F) {
    if testkit::role().is_some() {
        return tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(body());
    }
    let place = ProgramDir::new(test);
    let program = place.compile("stream_peer");
    let mut command = place.command(&std::env::current_exe().unwrap());
    command.args([test, "--exact", "--nocapture"]).env(testkit::ROLE, "body").env(PROGRAM, program);
    let said = must_succeed(command.env("LONGARM_LOCAL", local));
    assert!(said.contains("1 passed"), "{said}");
}

fn program(arguments: &[&str]) -> Child {
    let program = std::env::var_os(PROGRAM).unwrap();
    Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

async fn calls_and_is_called() {
    let mut server = program(&["serve"]);
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let address = format!("127.0.0.1:{}", port.trim());
    let (mut read, mut write) = RdmaStream::connect(address).await.unwrap().into_split();
    let bytes = pattern(BYTES);
    let writer = async {
        write.write_all(&bytes).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let ((), read) = tokio::join!(writer, read.read_to_end(&mut back));
    read.unwrap();
    assert!(back[..BYTES] == bytes, "bytes differ");
    assert_eq!(&back[BYTES..], b"farewell");
    assert!(server.wait().unwrap().success());

    let listener = RdmaListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let mut client = program(&["call", &port]);
    let (mut read, mut write) = listener.accept().await.unwrap().into_split();
    assert_eq!(tokio::io::copy(&mut read, &mut write).await.unwrap(), BYTES as u64);
    write.shutdown().await.unwrap();
    let ended = tokio::task::spawn_blocking(move || client.wait());
    assert!(ended.await.unwrap().unwrap().success());

    let mut client = program(&["die", &port]);
    let mut stream = listener.accept().await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'x');
    stream.write_u8(b'y').await.unwrap();
    let died = stream.read_u8().await.unwrap_err().kind();
    assert!(matches!(died, ErrorKind::ConnectionReset | ErrorKind::TimedOut), "{died:?}");
    client.wait().unwrap();
}

#[test]
fn a_program_in_c_calls_and_is_called() {
    beside_the_program("a_program_in_c_calls_and_is_called", "", calls_and_is_called);
}

#[test]
fn a_program_in_c_calls_and_is_called_in_packets() {
    beside_the_program("a_program_in_c_calls_and_is_called_in_packets", "off", calls_and_is_called);
}

//! A server with a door in the test's own process, in a network namespace, and raw connections to it and to Redis.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use longarm_kv::{KvServer, TableOptions};
use longarm_resp::{RespOptions, RespServer};

/// Patience: other programs share the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Where the door is, and where a real Redis is.
pub(crate) const DOOR: &str = "127.0.0.1:6390";
pub(crate) const REDIS: &str = "127.0.0.1:6379";

/// Runs `body` with a hub and a namespace. To be called from the test function of that name itself.
pub(crate) fn with_hub(test: &str, body: impl FnOnce()) {
    match testkit::role().as_deref() {
        None => hub::testing::passes_with_hub(&format!("resp-{test}"), testkit::run_again(test, "body")),
        Some(_) => body(),
    }
}

/// A server with one table, and its door. Fields drop in this order.
pub(crate) struct OpenDoor {
    pub(crate) door: RespServer,
    pub(crate) server: KvServer,
}

impl OpenDoor {
    pub(crate) fn new(options: RespOptions) -> OpenDoor {
        OpenDoor::with_table(options, TableOptions::default())
    }

    pub(crate) fn with_table(options: RespOptions, table: TableOptions) -> OpenDoor {
        let server = KvServer::builder().table("default", table).bind("127.0.0.1:7480").unwrap();
        let table = server.local_table("default").unwrap();
        OpenDoor { door: RespServer::open(table, DOOR, options).unwrap(), server }
    }
}

/// A program of the test. Dropping it kills it.
pub(crate) struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A real Redis at [`REDIS`].
pub(crate) fn redis() -> Program {
    redis_with(&[])
}

/// The same with further arguments.
pub(crate) fn redis_with(arguments: &[&str]) -> Program {
    let mut command = Command::new("redis-server");
    command.args(["--port", "6379", "--save", "", "--appendonly", "no"]).args(arguments).stdout(Stdio::null());
    let program = Program(command.spawn().expect("redis-server is installed (Debian package redis-server)"));
    testkit::wait_until("redis-server listens", || TcpStream::connect(REDIS).is_ok());
    program
}

/// A connection that shows the bytes of replies.
pub(crate) struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Raw {
    pub(crate) fn connect(address: &str) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw { stream, buffer: Vec::new() }
    }

    pub(crate) fn send(&mut self, request: &[Vec<u8>]) {
        self.stream.write_all(&encode(request)).unwrap();
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The bytes of the next reply; `None` at the end of the connection.
    pub(crate) fn reply(&mut self) -> Option<Vec<u8>> {
        loop {
            // RESP3 has all kinds of RESP2 but one.
            let found = frame_len(&self.buffer);
            if let Some(len) = found {
                return Some(self.buffer.drain(..len).collect());
            }
            let mut bytes = vec![0; 1 << 16];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(len) => self.buffer.extend_from_slice(&bytes[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}; so far {:?}", String::from_utf8_lossy(&self.buffer)),
            }
        }
    }

    pub(crate) fn ask(&mut self, words: &[&str]) -> String {
        self.send(&words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        String::from_utf8(self.reply().expect("a reply")).unwrap()
    }

    /// All bytes until the connection ends.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.buffer);
        // A connection that the peer resets ends as well.
        let _ = self.stream.read_to_end(&mut rest);
        rest
    }
}

pub(crate) fn encode(request: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", request.len()).into_bytes();
    for argument in request {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The length of the reply that the bytes begin with, if it is whole.
pub(crate) fn frame_len(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|two| two == b"\r\n")?;
    let number = || std::str::from_utf8(&bytes[1..line]).unwrap().parse::<i64>().unwrap();
    let items = match bytes[0] {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' => 0,
        b'$' | b'=' => {
            let len = line + 2 + usize::try_from(number()).map_or(0, |len| len + 2);
            return (bytes.len() >= len).then_some(len);
        }
        b'*' | b'~' | b'>' => number().max(0),
        b'%' => number() * 2,
        other => panic!("no reply begins with {:?}: {:?}", char::from(other), String::from_utf8_lossy(bytes)),
    };
    let mut len = line + 2;
    for _ in 0..items {
        len += frame_len(bytes.get(len..)?)?;
    }
    Some(len)
}

/// The directory of clients from PyPI and npm. The first call loads them. Not for a namespace without a network.
pub(crate) fn drivers() -> PathBuf {
    let dir = drivers_dir();
    let install = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers/install.sh");
    testkit::must_succeed(Command::new("sh").arg(install).arg(&dir));
    dir
}

pub(crate) fn drivers_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/redis-clients")
}

/// Runs a test program for clients from PyPI (`….py`) or npm (`….cjs`) with these arguments. It must succeed.
pub(crate) fn run_driver(dir: &Path, program: &str, arguments: &[&str]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers").join(program);
    let python = dir.join("python/bin/python");
    let interpreter = if program.ends_with(".py") { python } else { PathBuf::from("node") };
    let mut command = Command::new("timeout");
    command
        .arg(PATIENCE.as_secs().to_string())
        .arg(interpreter)
        .arg(file)
        .args(arguments)
        .env("NODE_PATH", dir.join("node_modules"));
    let said = testkit::said(&testkit::must_succeed(&mut command));
    assert!(said.trim_end().ends_with("all is well"), "{program}: {said}");
}

//! The server's process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use super::args::RpcBenchArgs;
use crate::baseline::{pins, unpin};
use crate::error::Error;
use crate::perf;

/// A server to measure. Dropping the value ends its process, if this one started it.
pub(super) struct BenchServer {
    child: Option<Child>,
    address: String,
}

impl BenchServer {
    /// A server that runs already.
    pub(super) fn at(address: &str) -> BenchServer {
        BenchServer { child: None, address: address.into() }
    }

    /// Starts this program as a server.
    pub(super) fn start(args: &RpcBenchArgs) -> Result<BenchServer, Error> {
        let address = args.address.map_or_else(perf::default_address, Ok)?;
        unpin();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["rpc", "bench", "--listen", &SocketAddr::new(address, 0).to_string()]);
        command.args(["--server-threads", &args.server_threads.to_string()]).stdout(Stdio::piped());
        if !pins() {
            command.arg("--unpinned");
        }
        let mut child = command.spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let found = line.trim().strip_prefix("listening on ").map(String::from);
        let server = BenchServer { child: Some(child), address: found.clone().unwrap_or_default() };
        found.map(|_| server).ok_or_else(|| Error::Peer("the server did not start; its own message is above".into()))
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

//! The server's process.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use longarm_rpc::ClientOptions;

use super::args::RpcBenchArgs;
use crate::baseline::{pins, unpin};
use crate::error::Error;
use crate::perf;

/// A server to measure. Dropping the value ends its process, if this one started it.
pub(super) struct BenchServer {
    child: Option<Child>,
    address: String,
    options: ClientOptions,
}

impl BenchServer {
    /// A server that runs already.
    pub(super) fn at(address: &str, args: &RpcBenchArgs) -> Result<BenchServer, Error> {
        let mut options = ClientOptions {
            // A host that is connected to by thousands answers slowly.
            connect_timeout: Duration::from_secs(30),
            tuning: args.switches.tuning(),
            ..ClientOptions::default()
        };
        args.proof.add_to(&mut options, address)?;
        Ok(BenchServer { child: None, address: address.into(), options })
    }

    /// Starts this program as a server.
    pub(super) fn start(args: &RpcBenchArgs) -> Result<BenchServer, Error> {
        let address = args.address.map_or_else(perf::default_address, Ok)?;
        let mut server = BenchServer::at(&SocketAddr::new(address, 0).to_string(), args)?;
        unpin();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["rpc", "bench", "--listen", &SocketAddr::new(address, 0).to_string()]);
        command.args(args.proof.files.arguments()).args(args.switches.arguments());
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
        let Some(address) = found else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Error::Peer("the server did not start; its own message is above".into()));
        };
        server.child = Some(child);
        server.address = address;
        Ok(server)
    }

    /// Settings of its clients.
    pub(super) fn options(&self) -> &ClientOptions {
        &self.options
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

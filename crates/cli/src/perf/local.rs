//! A server process on this host, started for one test.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};

use super::control::ControlConnection;
use crate::error::Error;

/// The server process; dropping the value ends it.
pub(crate) struct LocalServer {
    child: Child,
    address: SocketAddr,
}

impl LocalServer {
    /// Starts this program as a server on `address`, at a free port, with the given plan
    /// of faults or that of this process's environment.
    pub(crate) fn start(address: IpAddr, faults: Option<&str>) -> Result<LocalServer, Error> {
        crate::baseline::unpin();
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["perf-server", "--once", "--bind", &SocketAddr::new(address, 0).to_string()])
            .stdout(Stdio::piped());
        if !crate::baseline::pins() {
            command.arg("--unpinned");
        }
        if let Some(faults) = faults {
            command.env("LONGARM_FAULTS", faults);
        }
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| Error::Peer("the server has no output".into()))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        match line.trim().strip_prefix("listening on ").and_then(|a| a.parse().ok()) {
            Some(address) => Ok(LocalServer { child, address }),
            None => {
                let _ = child.wait();
                Err(Error::Peer("the server process did not start; its own message is above".into()))
            }
        }
    }

    /// Connects to it.
    pub(crate) fn connect(&self) -> Result<ControlConnection, Error> {
        Ok(ControlConnection::connect(self.address)?)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

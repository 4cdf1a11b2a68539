//! The processes of measured servers.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use longarm_kv::PutWay;

use super::args::{KvBenchArgs, KvSystem};
use super::load::{HinderedServer, ServerLoad};
use crate::baseline::{core_number, pins, unpin};
use crate::error::Error;

/// The time that a server has to start.
const START: Duration = Duration::from_secs(20);
/// Ticks of the kernel's accounting in a second.
const TICKS: f64 = 100.0;

/// A server's process on a core of its own. Dropping it ends the process.
pub(super) struct MeasuredServer {
    system: KvSystem,
    /// None: it is not ours.
    child: Option<Child>,
    /// Those of a cluster that is not ours, with commas between.
    address: String,
    /// Keeps the socket's directory.
    _directory: Option<tempfile::TempDir>,
}

impl MeasuredServer {
    pub(super) fn start(system: &KvSystem, args: &KvBenchArgs) -> Result<MeasuredServer, Error> {
        if !args.servers.is_empty() {
            let (system, address) = (system.clone(), args.servers.join(","));
            return Ok(MeasuredServer { system, child: None, address, _directory: None });
        }
        let directory = tempfile::tempdir()?;
        unpin();
        let (mut command, address) = match system {
            KvSystem::Longarm { layout, put, .. } => {
                let mut command = Command::new(std::env::current_exe()?);
                let memory = (args.keys * (args.size + 400) * 2).max(64 << 20);
                let writable = if *put == PutWay::OneSided { ",writable" } else { "" };
                let table = format!("default,layout={layout},max-memory={memory},keys={}{writable}", args.keys);
                command.args(["kv", "serve", "127.0.0.1:0", "--table", &table]).stdout(Stdio::piped());
                if let Some(rule) = &args.fsync {
                    command.args(["--fsync", rule, "--data"]).arg(directory.path().join("data"));
                }
                if pins() {
                    command.args(["--core", "1"]);
                }
                (command, None)
            }
            KvSystem::Resp { program, tcp } => {
                let mut command = pinned(program);
                let socket = directory.path().join("socket").display().to_string();
                let port = if *tcp { free_port()? } else { 0 };
                command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--unixsocket", &socket]);
                if let Some(rule) = &args.fsync {
                    command.args(["--appendfsync", rule]);
                }
                let log = if args.fsync.is_some() { "yes" } else { "no" };
                command.args(["--save", "", "--appendonly", log, "--dir"]).arg(directory.path()).stdout(Stdio::null());
                (command, Some(if *tcp { format!("127.0.0.1:{port}") } else { socket }))
            }
            KvSystem::Memcached { .. } if args.fsync.is_some() => {
                return Err(Error::Usage("--fsync: memcached keeps nothing on disk".into()));
            }
            KvSystem::Memcached { tcp } => {
                let mut command = pinned("memcached");
                let socket = directory.path().join("socket").display().to_string();
                let port = if *tcp { free_port()? } else { 0 };
                // It refuses to run as root unless it is told whom to become.
                command.args(["-u", "root", "-m", "2048", "-t", "1"]);
                match tcp {
                    true => command.args(["-l", "127.0.0.1", "-U", "0", "-p", &port.to_string()]),
                    false => command.args(["-s", &socket]),
                };
                (command, Some(if *tcp { format!("127.0.0.1:{port}") } else { socket }))
            }
        };
        let child = command.spawn().map_err(|error| Error::File(format!("{:?}", command.get_program()), error))?;
        let mut server = MeasuredServer {
            system: system.clone(),
            child: Some(child),
            address: String::new(),
            _directory: Some(directory),
        };
        server.address = match address {
            Some(address) => server.wait_for(address)?,
            None => server.first_line()?,
        };
        Ok(server)
    }

    pub(super) fn system(&self) -> &KvSystem {
        &self.system
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Hinders the server until the value is dropped.
    pub(super) fn hinder(&self, load: ServerLoad) -> Result<HinderedServer, Error> {
        HinderedServer::start(load, self.child.as_ref())
    }

    /// The cluster's servers, if it is not ours.
    pub(super) fn is_given(&self) -> bool {
        self.child.is_none()
    }

    /// Processor time of the process up to now, in seconds. Zero for one that is not ours.
    pub(super) fn cpu_seconds(&self) -> f64 {
        let Some(child) = &self.child else { return 0.0 };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        let field =
            |number: usize| rest.split(' ').nth(number).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
        (field(11) + field(12)) / TICKS
    }

    fn first_line(&mut self) -> Result<String, Error> {
        let mut line = String::new();
        if let Some(stdout) = self.child.as_mut().and_then(|child| child.stdout.take()) {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let found = line.trim().strip_prefix("listening on ").map(String::from);
        found.ok_or_else(|| Error::Peer("the server did not start; its own message is above".into()))
    }

    fn wait_for(&mut self, address: String) -> Result<String, Error> {
        let is_tcp = matches!(self.system, KvSystem::Resp { tcp: true, .. } | KvSystem::Memcached { tcp: true });
        let began = Instant::now();
        loop {
            let answers =
                if is_tcp { TcpStream::connect(&address).is_ok() } else { UnixStream::connect(&address).is_ok() };
            if answers {
                return Ok(address);
            }
            if let Some(status) = self.child.as_mut().map(Child::try_wait).transpose()?.flatten() {
                return Err(Error::Peer(format!("the server ended: {status}")));
            }
            if began.elapsed() > START {
                return Err(Error::Peer("the server does not answer".into()));
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for MeasuredServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A command on the server's core.
fn pinned(program: &str) -> Command {
    if !pins() {
        return Command::new(program);
    }
    let mut command = Command::new("taskset");
    command.args(["-c", &core_number(1).to_string(), program]);
    command
}

/// A port that is free now.
fn free_port() -> Result<u16, Error> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

//! `longarm kv demo`: a server that is stopped while its client goes on reading, on one host and over packets.

mod beside;
mod wire;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use longarm_kv::{KvOptions, KvTable};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;
use crate::report::nanoseconds;

/// The time that the server has on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Keys of the demonstration.
const KEYS: u32 = 10_000;

/// Show a server and a client that goes on reading while the server is stopped
#[derive(Args, Debug)]
pub(super) struct KvDemoArgs {
    /// GETs of each step
    #[arg(long, default_value = "200000", value_parser = clap::value_parser!(u32).range(1..))]
    gets: u32,
    /// Only the part over packets
    #[arg(long)]
    wire: bool,
}

/// `longarm kv demo`
pub(super) fn run(args: &KvDemoArgs) -> Result<(), Error> {
    if args.wire {
        return wire::run(args.gets);
    }
    let server = DemoServer::start(&["127.0.0.1:0"])?;
    println!("a server has started, as a process of its own: {}", server.address);
    let options = KvOptions { timeout: Duration::from_secs(1), ..KvOptions::default() };
    let mut table = KvTable::open(&server.address, "default", options)?;
    let data = DemoData::new(args.gets);
    let mut writer = data.put(&server)?;
    let reads = |table: &mut KvTable, words: &str| data.read(table, words);
    reads(&mut table, "the server waits")?;
    server.signal(Signal::STOP)?;
    reads(&mut table, "the server is STOPPED")?;
    let put = table.put(b"key", b"value");
    println!("a PUT meanwhile: {}", put.map_or_else(|error| error.to_string(), |version| version.to_string()));
    server.signal(Signal::CONT)?;
    writer.put(b"key", b"value")?;
    reads(&mut table, "the server goes on")?;
    wire::again(args.gets)?;
    beside::redis()
}

/// Keys with their values, and the number of GETs of each step.
struct DemoData {
    keys: Vec<[u8; 4]>,
    values: Vec<[u8; 64]>,
    gets: u32,
}

impl DemoData {
    fn new(gets: u32) -> DemoData {
        let values = (0..KEYS).map(|number| [number as u8; 64]).collect();
        DemoData { keys: (0..KEYS).map(u32::to_le_bytes).collect(), values, gets }
    }

    /// Puts all keys, by a client that waits long.
    fn put(&self, server: &DemoServer) -> Result<KvTable, Error> {
        let patient = KvOptions { timeout: PATIENCE, ..KvOptions::default() };
        let mut writer = KvTable::open(&server.address, "default", patient)?;
        writer.multi_put(self.keys.len(), |number| (&self.keys[number], &self.values[number]))?;
        println!("{KEYS} keys with values of 64 bytes were put by requests");
        Ok(writer)
    }

    /// GETs keys in turn, checks their values, and tells the time of each.
    fn read(&self, table: &mut KvTable, words: &str) -> Result<(), Error> {
        let (mut value, began) = (Vec::new(), Instant::now());
        for number in 0..self.gets as usize {
            let at = number * 7919 % self.keys.len();
            if table.get_into(&self.keys[at], &mut value)?.is_none() || value != self.values[at] {
                return Err(Error::Peer(format!("key {at} has another value")));
            }
        }
        let each = began.elapsed().as_nanos() as u64 / u64::from(self.gets);
        println!("{words}: {} GETs by READs, {} each, all values right", self.gets, nanoseconds(each));
        Ok(())
    }
}

/// The server's process. Dropping it ends the process.
struct DemoServer {
    child: Child,
    address: String,
}

impl DemoServer {
    fn start(arguments: &[&str]) -> Result<DemoServer, Error> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.args(["kv", "serve"]).args(arguments).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take();
        let mut server = DemoServer { child, address: String::new() };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line.trim().strip_prefix("listening on ");
        server.address = address.ok_or_else(|| Error::Peer("the server did not start".into()))?.into();
        Ok(server)
    }

    fn signal(&self, signal: Signal) -> Result<(), Error> {
        Ok(kill_process(Pid::from_child(&self.child), signal).map_err(std::io::Error::from)?)
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

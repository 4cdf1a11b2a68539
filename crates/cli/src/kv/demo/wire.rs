//! The demonstration over packets: another process exposes the tables, so that clients read while the server is stopped, and
//! after it was killed.

use std::process::Command;
use std::time::Duration;

use longarm_kv::{KvOptions, KvTable};
use rustix::process::Signal;

use super::{DemoData, DemoServer};
use crate::error::Error;

/// Runs this part as a process of its own, because the environment decides whether processes of one host use packets.
pub(super) fn again(gets: u32) -> Result<(), Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["kv", "demo", "--wire", "--gets", &gets.to_string()]).env("LONGARM_LOCAL", "off");
    match command.status()?.success() {
        true => Ok(()),
        false => Err(Error::Peer("the demonstration over packets failed".into())),
    }
}

/// `longarm kv demo --wire`
pub(super) fn run(gets: u32) -> Result<(), Error> {
    if std::env::var("LONGARM_LOCAL").as_deref() != Ok("off") {
        return again(gets);
    }
    println!("over packets, as between two hosts; another process exposes the tables (--separate-memory):");
    let server = DemoServer::start(&["127.0.0.1:0", "--separate-memory"])?;
    let data = DemoData::new(gets);
    let mut writer = data.put(&server)?;
    let hasty = KvOptions { timeout: Duration::from_secs(1), ..KvOptions::default() };
    let mut table = KvTable::open(&server.address, "default", hasty)?;
    data.read(&mut table, "the server waits")?;
    server.signal(Signal::STOP)?;
    data.read(&mut table, "the server is STOPPED")?;
    server.signal(Signal::CONT)?;
    writer.put(b"key", b"value")?;
    data.read(&mut table, "the server goes on")?;
    drop(server);
    data.read(&mut table, "the server was KILLED")?;
    let put = table.put(b"key", b"value");
    println!("a PUT meanwhile: {}", put.map_or_else(|error| error.to_string(), |version| version.to_string()));
    Ok(())
}

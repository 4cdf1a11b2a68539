//! `longarm memory ls`, `create`, `drop`, `read`, `write`: the regions of a tenant, for their owner.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use remote::{MemoryClient, MemoryClientOptions, RegionRole};

use super::read_secret;
use crate::error::Error;
use crate::sizes;

/// Bytes that are copied at a time.
const CHUNK: u64 = 1 << 20;

/// A server and one of its tenants.
#[derive(Args, Clone, Debug)]
pub(super) struct TenantTarget {
    /// Address and port of the server
    #[arg(short, long, value_name = "HOST:PORT", default_value = "127.0.0.1:7490")]
    server: String,
    /// The tenant
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    tenant: String,
    /// File of the owner's secret. A line break at its end does not count
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// The time that an operation may take
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = sizes::seconds)]
    timeout: Duration,
}

impl TenantTarget {
    fn connect(&self) -> Result<MemoryClient, Error> {
        let options = MemoryClientOptions { timeout: self.timeout, ..MemoryClientOptions::default() };
        let secret = self.secret_file.as_deref().map(read_secret).transpose()?;
        let client = MemoryClient::connect(&self.server, options)?;
        if let Some(secret) = secret {
            client.own(&self.tenant, &secret)?;
        }
        Ok(client)
    }
}

/// Make a region of zeros
#[derive(Args, Debug)]
pub(super) struct CreateArgs {
    #[command(flatten)]
    target: TenantTarget,
    /// Its name
    name: String,
    /// Its length
    #[arg(value_parser = sizes::bytes)]
    size: u64,
}

/// Drop a region: keys to it are dead from then on
#[derive(Args, Debug)]
pub(super) struct DropArgs {
    #[command(flatten)]
    target: TenantTarget,
    /// Its name
    name: String,
}

/// Write bytes of a region to the standard output
#[derive(Args, Debug)]
pub(super) struct ReadArgs {
    #[command(flatten)]
    target: TenantTarget,
    /// Its name
    name: String,
    /// The first byte
    #[arg(long, default_value = "0", value_parser = sizes::bytes)]
    at: u64,
    /// Number of bytes; up to the end of the region without it
    #[arg(long, value_parser = sizes::bytes)]
    len: Option<u64>,
}

/// Write the standard input to a region
#[derive(Args, Debug)]
pub(super) struct WriteArgs {
    #[command(flatten)]
    target: TenantTarget,
    /// Its name
    name: String,
    /// The first byte
    #[arg(long, default_value = "0", value_parser = sizes::bytes)]
    at: u64,
}

pub(super) fn list(target: &TenantTarget) -> Result<(), Error> {
    println!("{:<24} {:>14} {:>14} {:>8} {:>8}", "region", "bytes", "in pieces", "pieces", "clients");
    for region in target.connect()?.list(&target.tenant)? {
        let (len, used) = (region.len_bytes, region.used_bytes);
        println!("{:<24} {len:>14} {used:>14} {:>8} {:>8}", region.name, region.pieces, region.clients);
    }
    Ok(())
}

pub(super) fn create(args: &CreateArgs) -> Result<(), Error> {
    Ok(args.target.connect()?.create(&args.target.tenant, &args.name, args.size)?)
}

pub(super) fn drop_region(args: &DropArgs) -> Result<(), Error> {
    Ok(args.target.connect()?.drop_region(&args.target.tenant, &args.name)?)
}

pub(super) fn read(args: &ReadArgs) -> Result<(), Error> {
    let region = args.target.connect()?.open(&args.target.tenant, &args.name, RegionRole::Reader, None)?;
    let len = args.len.unwrap_or_else(|| region.len_bytes().saturating_sub(args.at));
    let end = args.at.checked_add(len).filter(|end| *end <= region.len_bytes());
    let end = end.ok_or_else(|| Error::Usage(format!("the region has {} bytes", region.len_bytes())))?;
    let (mut out, mut at) = (std::io::stdout().lock(), args.at);
    while at < end {
        let mut bytes = vec![0; (end - at).min(CHUNK) as usize];
        region.read(at, &mut bytes)?;
        out.write_all(&bytes)?;
        at += bytes.len() as u64;
    }
    Ok(out.flush()?)
}

pub(super) fn write(args: &WriteArgs) -> Result<(), Error> {
    let region = args.target.connect()?.open(&args.target.tenant, &args.name, RegionRole::Writer, None)?;
    let mut at = args.at;
    loop {
        let mut bytes = Vec::new();
        std::io::stdin().lock().take(CHUNK).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            return Ok(());
        }
        region.write(at, &bytes)?;
        at += bytes.len() as u64;
    }
}

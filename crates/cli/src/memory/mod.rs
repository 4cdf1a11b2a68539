//! `longarm memory`: a memory server, and its regions.

mod regions;
mod serve;

use std::path::Path;

use clap::{Args, Subcommand};
use remote::ProofSecret;

use crate::error::Error;

/// Serve memory in named regions, which clients read and write without the server's program
#[derive(Args, Debug)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    command: MemoryCommand,
}

#[derive(Subcommand, Debug)]
enum MemoryCommand {
    Serve(serve::MemoryServeArgs),
    /// List the regions of a tenant
    Ls(regions::TenantTarget),
    Create(regions::CreateArgs),
    Drop(regions::DropArgs),
    Read(regions::ReadArgs),
    Write(regions::WriteArgs),
}

/// `longarm memory`
pub(crate) fn run(args: &MemoryArgs) -> Result<(), Error> {
    match &args.command {
        MemoryCommand::Serve(args) => serve::run(args),
        MemoryCommand::Ls(target) => regions::list(target),
        MemoryCommand::Create(args) => regions::create(args),
        MemoryCommand::Drop(args) => regions::drop_region(args),
        MemoryCommand::Read(args) => regions::read(args),
        MemoryCommand::Write(args) => regions::write(args),
    }
}

/// The secret in a file. A line break at its end does not count.
fn read_secret(file: &Path) -> Result<ProofSecret, Error> {
    let bytes = std::fs::read(file).map_err(|error| Error::File(file.display().to_string(), error))?;
    let secret = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let secret = ProofSecret::new(secret.strip_suffix(b"\r").unwrap_or(secret));
    secret.map_err(|error| Error::Usage(format!("{}: {error}", file.display())))
}

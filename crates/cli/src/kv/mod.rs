//! `longarm kv`: the key-value store, its shell, its figures, its measurements.

mod bench;
mod data;
mod demo;
mod door;
mod import;
mod layouts;
mod many;
mod membership;
mod memory;
mod metrics;
mod moves;
mod prompt;
mod revoke;
mod running;
mod serve;
mod shell;
mod status;
mod target;
mod top;

use clap::{Args, Subcommand};

use crate::error::Error;

/// Serve a key-value store that clients read without the server's processor, and use it
#[derive(Args, Debug)]
pub(crate) struct KvArgs {
    #[command(subcommand)]
    command: KvCommand,
}

#[derive(Subcommand, Debug)]
enum KvCommand {
    Serve(Box<serve::KvServeArgs>),
    Cli(shell::KvCliArgs),
    Top(top::KvTopArgs),
    Status(status::KvStatusArgs),
    Revoke(revoke::KvRevokeArgs),
    Rebalance(moves::KvRebalanceArgs),
    Drain(moves::KvDrainArgs),
    Bench(bench::KvBenchArgs),
    Layouts(layouts::KvLayoutsArgs),
    Demo(demo::KvDemoArgs),
    Check(data::KvCheckArgs),
    Backup(data::KvBackupArgs),
    Restore(data::KvRestoreArgs),
    ImportRdb(import::KvImportArgs),
    #[command(hide = true)]
    Memory,
}

/// `longarm kv`
pub(crate) fn run(args: &KvArgs) -> Result<(), Error> {
    match &args.command {
        KvCommand::Serve(args) => serve::run(args),
        KvCommand::Cli(args) => shell::run(args),
        KvCommand::Top(args) => top::run(args),
        KvCommand::Status(args) => status::run(args),
        KvCommand::Revoke(args) => revoke::run(args),
        KvCommand::Rebalance(args) => moves::rebalance(args),
        KvCommand::Drain(args) => moves::drain(args),
        KvCommand::Bench(args) => bench::run(args),
        KvCommand::Layouts(args) => layouts::run(args),
        KvCommand::Demo(args) => demo::run(args),
        KvCommand::Check(args) => data::check(args),
        KvCommand::Backup(args) => data::backup(args),
        KvCommand::Restore(args) => data::restore(args),
        KvCommand::ImportRdb(args) => import::run(args),
        KvCommand::Memory => memory::run(),
    }
}

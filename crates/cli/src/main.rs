//! The `longarm` command.
#![forbid(unsafe_code)]

/// Replaces the standard `println!`, which panics when the reader of the output is gone: `longarm status | head`.
macro_rules! println {
    () => { $crate::output::line(format_args!("")) };
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

mod baseline;
mod commands;
mod compare;
mod demo;
mod error;
mod kv;
mod memory;
mod mesh;
mod metrics;
mod output;
mod pair;
mod perf;
mod rdma;
#[cfg(test)]
mod recipes;
mod report;
mod rpc;
mod run;
mod sizes;
mod sysfs;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// RDMA on any machine, in user space
#[derive(Parser, Debug)]
#[command(name = "longarm", version, after_help = ENVIRONMENT)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const ENVIRONMENT: &str = "\
Environment, for every program that uses Longarm:
  LONGARM_FAULTS    inject seeded faults, e.g. seed=7,loss=0.05,dup=0.01,reorder=0.02,delay=100us,corrupt=0.001,rnr=0.05
  LONGARM_LOCAL     off: reach peers on this host by packets, too, instead of shared memory
  LONGARM_CAPTURE   write every packet to this pcapng file, including those that shared memory replaces
  LONGARM_ADOPT     \"safe\" (the default), \"always\" or \"never\": the registered memory that moves to pages that peers on this host map
  LONGARM_PTRACER   \"any\": where Yama restricts ptrace, every process of this user may reach this one's memory
  LONGARM_NAP       off: a poll that finds nothing never sleeps, even while other processes want the processor
  LONGARM_SLOTS     1 to 16: number of processors on which the process can receive packets at once
  RUST_LOG          log level, e.g. debug";

#[derive(Subcommand, Debug)]
enum Command {
    Run(run::RunArgs),
    Pair(pair::PairArgs),
    Demo(demo::DemoArgs),
    Perf(perf::PerfArgs),
    PerfServer(perf::ServeArgs),
    Rpc(rpc::RpcArgs),
    Kv(kv::KvArgs),
    Memory(memory::MemoryArgs),
    Up(commands::UpArgs),
    Down(commands::DownArgs),
    Status(commands::StatusArgs),
    Devices(commands::DevicesArgs),
    Mesh(mesh::MeshArgs),
    Completions(commands::CompletionsArgs),
    ManPages(commands::ManPagesArgs),
    #[command(hide = true)]
    Blocking(baseline::BlockingArgs),
    Compare(compare::CompareArgs),
    #[command(hide = true)]
    MeshMember(mesh::MemberArgs),
    #[command(hide = true)]
    Hub(commands::HubArgs),
    #[command(hide = true)]
    NamespaceProbe,
    #[command(hide = true)]
    Rdma(rdma::RdmaArgs),
    #[command(hide = true)]
    Tied(pair::TiedArgs),
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    if let Some(args) = rdma::called() {
        return rdma::run(&args);
    }
    let outcome = match Arguments::parse().command {
        Command::Rdma(args) => return rdma::run(&args),
        Command::Run(args) => return run::run(&args),
        Command::Pair(args) => return pair::run(&args),
        Command::NamespaceProbe => return run::probe(),
        Command::Tied(args) => return pair::tied(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Perf(args) => perf::run(&args),
        Command::PerfServer(args) => perf::serve(&args),
        Command::Rpc(args) => rpc::run(&args),
        Command::Kv(args) => kv::run(&args),
        Command::Memory(args) => memory::run(&args),
        Command::Blocking(args) => baseline::blocking(&args),
        Command::Mesh(args) => mesh::run(&args),
        Command::MeshMember(args) => mesh::member(&args),
        Command::Completions(args) => commands::completions(&args, &Arguments::command()),
        Command::ManPages(args) => commands::man_pages(&args, Arguments::command()),
        Command::Compare(args) => compare::run(&args),
        Command::Up(args) => commands::up(&args),
        Command::Down(args) => commands::down(&args),
        Command::Status(args) => commands::status(&args),
        Command::Hub(args) => commands::run_hub(&args),
        Command::Devices(args) => commands::devices(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("longarm: {problem}");
            ExitCode::FAILURE
        }
    }
}

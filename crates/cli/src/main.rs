//! The `longarm` command.
#![forbid(unsafe_code)]

mod baseline;
mod commands;
mod compare;
mod demo;
mod error;
mod pair;
mod perf;
mod report;
mod run;
mod sysfs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
  LONGARM_CAPTURE   write every packet to this pcapng file, also those that shared memory has spared
  LONGARM_ADOPT     \"off\": registered memory stays where it is, although peers on this host cannot map it there
  LONGARM_SLOTS     1 to 16: on so many processors the process can receive packets at once
  RUST_LOG          what to log, e.g. debug";

#[derive(Subcommand, Debug)]
enum Command {
    Run(run::RunArgs),
    Pair(pair::PairArgs),
    Demo(demo::DemoArgs),
    Perf(perf::PerfArgs),
    PerfServer(perf::ServeArgs),
    Up(commands::UpArgs),
    Down(commands::DownArgs),
    Status(commands::StatusArgs),
    Devices(commands::DevicesArgs),
    Compare(compare::CompareArgs),
    #[command(hide = true)]
    Hub(commands::HubArgs),
    #[command(hide = true)]
    NamespaceProbe,
    #[command(hide = true)]
    Tied(pair::TiedArgs),
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let outcome = match Arguments::parse().command {
        Command::Run(args) => return run::run(&args),
        Command::Pair(args) => return pair::run(&args),
        Command::NamespaceProbe => return run::probe(),
        Command::Tied(args) => return pair::tied(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Perf(args) => perf::run(&args),
        Command::PerfServer(args) => perf::serve(&args),
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

//! The `longarm` command.
#![forbid(unsafe_code)]

mod baseline;
mod commands;
mod demo;
mod error;
mod perf;
mod report;
mod targets;

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
  LONGARM_CAPTURE   write every packet to this pcapng file
  RUST_LOG          what to log, e.g. debug";

#[derive(Subcommand, Debug)]
enum Command {
    Demo(demo::DemoArgs),
    Perf(perf::PerfArgs),
    PerfServer(perf::ServeArgs),
    Up(commands::UpArgs),
    Down(commands::DownArgs),
    Status(commands::StatusArgs),
    Devices(commands::DevicesArgs),
    Targets(targets::TargetsArgs),
    #[command(hide = true)]
    Hub(commands::HubArgs),
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    let outcome = match Arguments::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Perf(args) => perf::run(&args),
        Command::PerfServer(args) => perf::serve(&args),
        Command::Targets(args) => targets::run(&args),
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

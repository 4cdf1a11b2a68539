//! Longarm against the Soft-RoCE driver of a Linux kernel: `cargo xtask interop`.
//!
//! ```text
//!  network namespace of the run                         QEMU, emulated: Debian's kernel
//!  ┌──────────────────────────────────────┐            ┌──────────────────────────────┐
//!  │ longarm run -- ibv_rc_pingpong ...   │   tap      │ ibv_rc_pingpong ... on rxe0  │
//!  │ la_lab0: 10.77.0.1, fd77::1      lab0├────────────┤eth0: 10.77.0.11, fd77::b     │
//!  └──────────────────────────────────────┘            └──────────────────────────────┘
//! ```
//!
//! One boot serves all cases. [`tables`] says what is run and how success is judged,
//! [`golden`] which exchanges are captured and compared with what two Soft-RoCE hosts sent.
#![forbid(unsafe_code)]

mod capture;
mod case;
mod compare;
mod connections;
#[cfg(test)]
mod document;
mod exchange;
mod explained;
mod fields;
mod golden;
mod guest;
mod lab;
mod local;
mod mads;
mod namespace;
mod ready;
mod run;
mod speed;
mod tables;
mod trials;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Runs Longarm against Linux Soft-RoCE (rxe) in a virtual machine.
#[derive(Parser)]
struct Options {
    /// A few cases of each kind; says so and succeeds where the lab cannot be had.
    #[arg(long)]
    short: bool,
    /// Only cases whose group and name contain this, of all tables.
    #[arg(long, default_value = "")]
    only: String,
    /// The guest's kernel: 6.1 or 6.12.
    #[arg(long, default_value = "6.1")]
    kernel: String,
    /// Runs each case so often.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// Also captures the wire during each case, into the run's directory.
    #[arg(long)]
    capture: bool,
    /// Says all differences of packets, also those that have an explanation.
    #[arg(short, long)]
    verbose: bool,
    /// Measures in the guest instead: perftest's programs on rxe, siw and Longarm; files of what they
    /// said go to this directory.
    #[arg(long, value_name = "DIRECTORY")]
    speed: Option<PathBuf>,
    /// Only compares a capture's packets of one address with those of another capture and address.
    #[arg(long, num_args = 4, value_names = ["OURS", "ADDRESS", "GOLDEN", "ADDRESS"])]
    compare: Option<Vec<String>>,
}

fn main() -> ExitCode {
    match perform(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("interop: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn perform(options: &Options) -> Result<(), String> {
    if let Some(files) = &options.compare {
        return golden::compare_files(files);
    }
    if let Some(run) = namespace::inside() {
        return match &options.speed {
            Some(to) => speed::all(options, to, &run),
            None => run::all(options, &run),
        };
    }
    let ready = lab::missing().map_or(Ok(()), Err).and_then(|()| lab::build(&options.kernel));
    match ready {
        Err(reason) if options.short => {
            println!("interop: NOT RUN: {reason}");
            return Ok(());
        }
        other => other?,
    }
    if options.speed.is_some() {
        lab::build_siw(&options.kernel);
    }
    namespace::enter(&lab::run_directory()?)
}

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
//! One boot serves all cases. [`tables`] lists the programs and their criteria of success,
//! [`golden`] the exchanges that are captured and compared with those of two Soft-RoCE hosts.
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
mod options;
mod ready;
mod run;
mod speed;
mod suites;
mod tables;
mod tally;
mod trials;

use std::process::ExitCode;

use clap::Parser;
use options::InteropOptions;

fn main() -> ExitCode {
    match perform(&InteropOptions::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("interop: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn perform(options: &InteropOptions) -> Result<(), String> {
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
    if options.speed.is_some() || options.suites.is_some() {
        lab::build_siw(&options.kernel);
    }
    namespace::enter(&lab::run_directory()?)
}

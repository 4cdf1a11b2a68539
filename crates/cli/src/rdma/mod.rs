//! `rdma` of iproute2, for devices that the kernel does not know.
//!
//! iproute2's program asks the kernel by NETLINK_RDMA, which machines without RDMA lack. `longarm run` puts this
//! program before it in `PATH`. It answers the queries about Longarm's devices (`dev show`, `link show`,
//! `system show`) in the same format, and executes iproute2's program for all others.

mod request;
mod show;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::error::Error;
use request::{QueryObject, RdmaQuery};

/// The name that makes this program act as `rdma`.
pub(crate) const NAME: &str = "rdma";

/// `rdma` of iproute2, for these devices
#[derive(Args, Debug)]
pub(crate) struct RdmaArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// The arguments, if this program was called as `rdma`.
pub(crate) fn called() -> Option<RdmaArgs> {
    let mut words = env::args_os();
    let name = words.next()?;
    let is_ours = PathBuf::from(name).file_name() == Some(OsStr::new(NAME));
    is_ours.then(|| RdmaArgs { arguments: words.collect() })
}

/// Answers a query, or executes iproute2's `rdma`.
pub(crate) fn run(args: &RdmaArgs) -> ExitCode {
    let Some(request) = RdmaQuery::parse(&args.arguments) else { return other(&args.arguments) };
    match answer(&request) {
        Ok(Some(text)) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(None) => {
            eprintln!("Wrong device name");
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("longarm: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// The output; `None` if there is no such device.
fn answer(request: &RdmaQuery) -> Result<Option<String>, Error> {
    if request.object == QueryObject::System {
        return Ok(Some(show::system(request)));
    }
    let devices = show::visible(device::Device::list()?);
    let chosen: Vec<_> = devices.iter().enumerate().filter(|(_, device)| request.names(&device.name)).collect();
    if chosen.is_empty() && request.which.is_some() {
        return Ok(None);
    }
    Ok(Some(show::devices(request, &chosen)))
}

/// Executes iproute2's program.
fn other(arguments: &[OsString]) -> ExitCode {
    let own = env::current_exe().and_then(fs::canonicalize).ok();
    let places = env::var_os("PATH").map(|path| env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let files = places.iter().map(|place| place.join(NAME)).filter(|file| file.is_file());
    let mut others = files.filter(|file| fs::canonicalize(file).ok() != own);
    match others.next() {
        Some(file) => eprintln!("longarm: {}: {}", file.display(), Command::new(&file).args(arguments).exec()),
        None => {
            eprintln!("longarm: this rdma knows only dev show, link show and system show, and the system has no other")
        }
    }
    ExitCode::FAILURE
}

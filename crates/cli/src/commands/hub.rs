//! `longarm up`, `longarm down`, and the hub in the foreground.

use std::time::Duration;

use clap::Args;
use hub::client::AttachError;
use hub::daemon::{Announce, DaemonOptions};

use crate::error::Error;

/// Start the hub, and keep it running when no process uses it
#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    /// Exit after this number of seconds without clients [default: never]
    #[arg(long, value_name = "SECONDS")]
    idle: Option<u64>,
}

/// Stop the hub
#[derive(Args, Debug)]
pub(crate) struct DownArgs {
    /// Stop it even while programs use it; they keep working and join the next hub
    #[arg(long)]
    force: bool,
}

/// Run the hub in the foreground
#[derive(Args, Debug)]
pub(crate) struct HubArgs {
    /// Exit after this number of seconds without clients [default: never]
    #[arg(long, value_name = "SECONDS")]
    idle: Option<u64>,
}

/// `longarm up`
pub(crate) fn up(args: &UpArgs) -> Result<(), Error> {
    let running = match hub::client::ping(None) {
        Ok(()) => true,
        Err(AttachError::NotRunning) => false,
        Err(problem) => return Err(problem.into()),
    };
    hub::client::up(None, args.idle.map(Duration::from_secs))?;
    let status = hub::client::status(None)?;
    let what = if running { "was running already" } else { "is running" };
    println!("The hub {what}: process {}, {} of {} slots free.", status.pid, status.free_slots, status.slots);
    Ok(())
}

/// `longarm down`
pub(crate) fn down(args: &DownArgs) -> Result<(), Error> {
    match hub::client::shutdown(None, args.force) {
        Ok(()) => println!("The hub has stopped."),
        Err(AttachError::NotRunning) => println!("No hub was running."),
        Err(problem) => return Err(problem.into()),
    }
    Ok(())
}

/// `longarm hub`
pub(crate) fn run_hub(args: &HubArgs) -> Result<(), Error> {
    let options = DaemonOptions {
        idle_timeout: args.idle.map(Duration::from_secs),
        announce: Announce::No,
        ..DaemonOptions::default()
    };
    hub::daemon::run(&options).map_err(|problem| Error::Peer(problem.to_string()))
}

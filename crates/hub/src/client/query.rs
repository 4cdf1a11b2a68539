//! Asking the hub one thing, as commands do.

use super::AttachError;
use super::approach::{Approach, Opening, Start};
use super::attachment::program_name;
use crate::message::{Reply, Request};
use crate::record::DeviceRecord;
use crate::rendezvous::Rendezvous;
use crate::status::Status;
use std::path::{Path, PathBuf};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(15);

/// The running hub's state. `runtime_dir` is for a hub in another directory than the
/// environment tells; so it is for the other functions.
///
/// # Errors
/// [`AttachError::NotRunning`] if there is no hub; others as they say.
pub fn status(runtime_dir: Option<&Path>) -> Result<Status, AttachError> {
    match ask(runtime_dir, Request::Status, Start::Never)? {
        Reply::Status(status) => Ok(*status),
        other => Err(unexpected(&other)),
    }
}

/// The directory of hubs, made if there is none. Needs no hub: one may die at any time.
///
/// # Errors
/// [`AttachError`] of a directory that cannot be had or is not safe.
pub fn runtime_dir(runtime_dir: Option<&Path>) -> Result<PathBuf, AttachError> {
    Ok(Rendezvous::find(runtime_dir)?.path().to_owned())
}

/// The devices; starts a hub if there is none.
///
/// # Errors
/// See [`AttachError`].
pub fn devices(runtime_dir: Option<&Path>) -> Result<Vec<DeviceRecord>, AttachError> {
    let start = Start::OnDemand(Some(crate::daemon::DEFAULT_IDLE_TIMEOUT));
    match ask(runtime_dir, Request::Devices, start)? {
        Reply::Devices { devices } => Ok(devices),
        other => Err(unexpected(&other)),
    }
}

/// Makes sure that a hub runs, and that it leaves only after `idle_timeout` without clients;
/// never without it.
///
/// # Errors
/// See [`AttachError`].
pub fn up(runtime_dir: Option<&Path>, idle_timeout: Option<Duration>) -> Result<(), AttachError> {
    let milliseconds = |timeout: Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let request = Request::KeepUp { idle_timeout_ms: idle_timeout.map(milliseconds) };
    done(ask(runtime_dir, request, Start::OnDemand(idle_timeout))?)
}

/// Tells the hub to leave. Processes that are attached keep working without it; without
/// `force` it stays if there are any.
///
/// # Errors
/// [`AttachError::NotRunning`] if there is no hub; [`AttachError::Refused`] with the names of
/// the attached processes; others as they say.
pub fn shutdown(runtime_dir: Option<&Path>, force: bool) -> Result<(), AttachError> {
    done(ask(runtime_dir, Request::Shutdown { force }, Start::Never)?)
}

/// Asks whether the hub answers.
///
/// # Errors
/// [`AttachError::NotRunning`] if there is no hub; others as they say.
pub fn ping(runtime_dir: Option<&Path>) -> Result<(), AttachError> {
    done(ask(runtime_dir, Request::Ping, Start::Never)?)
}

fn ask(runtime_dir: Option<&Path>, request: Request, start: Start) -> Result<Reply, AttachError> {
    let rendezvous = Rendezvous::find(runtime_dir)?;
    let opening = Opening { program: program_name(), request, descriptors: Vec::new() };
    Ok(Approach::new(rendezvous, opening, start).wait(TIMEOUT)?.reply)
}

fn done(reply: Reply) -> Result<(), AttachError> {
    match reply {
        Reply::Done => Ok(()),
        other => Err(unexpected(&other)),
    }
}

pub(super) fn unexpected(reply: &Reply) -> AttachError {
    AttachError::protocol(format!("unexpected reply {reply:?}"))
}

//! Single requests to the hub, for commands.

use super::connector::{FirstRequest, HubConnector, StartPolicy};
use super::error::AttachError;
use super::hub_connection::program_name;
use crate::message::{HubRequest, Reply};
use crate::record::DeviceRecord;
use crate::rendezvous::Rendezvous;
use crate::status::HubStatus;
use std::path::{Path, PathBuf};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(15);

/// The running hub's state. Here and below, `runtime_dir` replaces the directory that the environment names.
///
/// # Errors
/// [`AttachError::NotRunning`] if there is no hub; others by their description.
pub fn status(runtime_dir: Option<&Path>) -> Result<HubStatus, AttachError> {
    match ask(runtime_dir, HubRequest::Status, StartPolicy::Never)? {
        Reply::Status(status) => Ok(*status),
        other => Err(AttachError::unexpected(&other)),
    }
}

/// The directory of hubs, made if there is none. Needs no running hub.
///
/// # Errors
/// [`AttachError`] if the directory cannot be made or is not safe.
pub fn runtime_dir(runtime_dir: Option<&Path>) -> Result<PathBuf, AttachError> {
    Ok(Rendezvous::find(runtime_dir)?.path().to_owned())
}

/// The devices; starts a hub if there is none.
///
/// # Errors
/// See [`AttachError`].
pub fn devices(runtime_dir: Option<&Path>) -> Result<Vec<DeviceRecord>, AttachError> {
    let start = StartPolicy::OnDemand(Some(crate::daemon::DEFAULT_IDLE_TIMEOUT));
    match ask(runtime_dir, HubRequest::Devices, start)? {
        Reply::Devices { devices } => Ok(devices),
        other => Err(AttachError::unexpected(&other)),
    }
}

/// Makes sure that a hub runs, and that it exits only after `idle_timeout` without clients; never if there is none.
///
/// # Errors
/// See [`AttachError`].
pub fn up(runtime_dir: Option<&Path>, idle_timeout: Option<Duration>) -> Result<(), AttachError> {
    let milliseconds = |timeout: Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let request = HubRequest::KeepUp { idle_timeout_ms: idle_timeout.map(milliseconds) };
    done(ask(runtime_dir, request, StartPolicy::OnDemand(idle_timeout))?)
}

/// Tells the hub to exit. Attached processes continue without it; without `force` it stays if there are any.
///
/// # Errors
/// [`AttachError::NotRunning`] if there is no hub; [`AttachError::Refused`] with the names of
/// the attached processes; others by their description.
pub fn shutdown(runtime_dir: Option<&Path>, force: bool) -> Result<(), AttachError> {
    done(ask(runtime_dir, HubRequest::Shutdown { force }, StartPolicy::Never)?)
}

/// Succeeds if the hub answers.
///
/// # Errors
/// [`AttachError::NotRunning`] if there is no hub; others by their description.
pub fn ping(runtime_dir: Option<&Path>) -> Result<(), AttachError> {
    done(ask(runtime_dir, HubRequest::Ping, StartPolicy::Never)?)
}

fn ask(runtime_dir: Option<&Path>, request: HubRequest, start: StartPolicy) -> Result<Reply, AttachError> {
    let rendezvous = Rendezvous::find(runtime_dir)?;
    let first = FirstRequest { program: program_name(), request, descriptors: Vec::new() };
    Ok(HubConnector::new(rendezvous, first, start).wait(TIMEOUT)?.reply)
}

fn done(reply: Reply) -> Result<(), AttachError> {
    match reply {
        Reply::Done => Ok(()),
        other => Err(AttachError::unexpected(&other)),
    }
}

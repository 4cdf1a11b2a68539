//! Sockets of the port in processes that are not clients: children that a client made with a bare
//! `clone`, with copies of all its descriptors.
//!
//! The kernel keeps the port taken for as long as one of them lives. The next hub could not bind it, so this
//! hub stays ([`exist`]). A new hub whose predecessor was killed looks for
//! the keeper among the descriptors of such processes and takes it ([`find_keeper`]).

use super::keeper::Keeper;
use crate::rendezvous::RUNTIME_DIR_VARIABLE;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use std::fs;
use std::os::fd::OwnedFd;

/// The name of a hub's process.
const HUB_NAME: &str = "longarm-hub";
/// Most descriptors of a process that are tried.
const MOST_DESCRIPTORS: usize = 4096;

/// Whether another process has the port's sockets.
pub(super) fn exist() -> bool {
    let others = udp::other_processes_on_port();
    if let Some((pid, name)) = others.first() {
        log::warn!("process {pid} ({name}) has sockets of a client that has ended: the hub stays");
    }
    !others.is_empty()
}

/// A hub of another runtime directory that lives and has the port's sockets: its process, and its directory.
pub(super) fn living_hub() -> Option<(u32, String)> {
    let (pid, _) = udp::other_processes_on_port().into_iter().find(|(_, name)| name == HUB_NAME)?;
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let set = environment
        .split(|byte| *byte == 0)
        .find_map(|one| one.strip_prefix(RUNTIME_DIR_VARIABLE.as_bytes())?.strip_prefix(b"="));
    let directory = set.map_or_else(|| "(unknown)".into(), |path| String::from_utf8_lossy(path).into_owned());
    Some((pid, directory))
}

/// A copy of this network namespace's keeper out of any process that this one may inspect (see `ptrace(2)`).
pub(super) fn find_keeper(namespace: u64) -> Option<OwnedFd> {
    let processes = udp::other_processes_on_port();
    processes.into_iter().find_map(|(pid, name)| {
        let keeper = keeper_of(pid, namespace)?;
        log::info!("process {pid} ({name}) had the sockets of a dead hub");
        Some(keeper)
    })
}

fn keeper_of(pid: u32, namespace: u64) -> Option<OwnedFd> {
    let process = rustix::process::pidfd_open(Pid::from_raw(pid.try_into().ok()?)?, PidfdFlags::empty()).ok()?;
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten().take(MOST_DESCRIPTORS);
    let sockets = entries.filter(|entry| {
        fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str().as_encoded_bytes().starts_with(b"socket:"))
    });
    let numbers = sockets.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut copies =
        numbers.filter_map(|number| rustix::process::pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).ok());
    copies.find(|copy| copy.try_clone().is_ok_and(|copy| Keeper::open(copy, namespace).is_ok()))
}

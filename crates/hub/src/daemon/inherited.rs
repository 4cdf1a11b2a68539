//! Sockets of the port in processes that are no clients: children that a client made with a bare `clone`, and that took
//! copies of all its descriptors along.
//!
//! The kernel keeps the port taken for as long as one of them lives. While the hub lives, that is no harm: the sockets are
//! still the hub's, too. So it stays ([`Server::is_port_held_elsewhere`]). A new hub, whose predecessor was killed, looks for
//! the keeper among their descriptors and takes it ([`find`]).

use super::server::Server;
use crate::keeper::Keeper;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use std::fs;
use std::os::fd::OwnedFd;

/// Most descriptors of a process that are tried.
const MOST_DESCRIPTORS: usize = 4096;

impl Server {
    /// Whether another process has the port's sockets, so that the next hub could not have the port.
    pub(super) fn is_port_held_elsewhere(&self) -> bool {
        let others = if self.port.group().is_some() { udp::other_processes_on_port() } else { Vec::new() };
        if let Some((pid, name)) = others.first() {
            log::warn!("process {pid} ({name}) has sockets of a client that has ended: the hub stays");
        }
        !others.is_empty()
    }
}

/// A copy of a keeper for this network namespace, of any process that may be looked into (`ptrace(2)` tells which).
pub(super) fn find(namespace: u64) -> Option<OwnedFd> {
    let processes = udp::other_processes_on_port();
    processes.into_iter().find_map(|(pid, name)| {
        let keeper = keeper_of(pid, namespace)?;
        log::info!("process {pid} ({name}) had the sockets of a hub that died");
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

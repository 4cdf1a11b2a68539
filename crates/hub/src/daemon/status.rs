//! The hub's state for people and programs.

use super::attachments::Attachments;
use super::clients::{ClientConnection, Clients};
use super::introductions::Introductions;
use super::relay::MadRelay;
use super::response::ClientId;
use super::slot_group::SlotGroup;
use crate::message::VERSION;
use crate::status::{ClientStatus, HubStatus, ManagerStatus};
use std::path::Path;
use std::time::{Duration, Instant};

/// The part of the status that never changes.
#[derive(Debug)]
pub(super) struct HubIdentity {
    started: Instant,
    namespace: u64,
    runtime_dir: String,
}

impl HubIdentity {
    /// That of a hub that starts now.
    pub(super) fn new(namespace: u64, runtime_dir: &Path) -> HubIdentity {
        HubIdentity { started: Instant::now(), namespace, runtime_dir: runtime_dir.display().to_string() }
    }
}

/// The components that know a part of the status.
pub(super) struct StatusSources<'a> {
    /// The slots, if the hub has the port.
    pub(super) port: Option<&'a SlotGroup>,
    pub(super) clients: &'a Clients,
    pub(super) attachments: &'a Attachments,
    pub(super) introductions: &'a Introductions,
    pub(super) relay: &'a MadRelay,
}

impl StatusSources<'_> {
    /// The status, without the idle timeout and the hub's own counters.
    pub(super) fn compose(&self, identity: &HubIdentity) -> HubStatus {
        let group = self.port;
        HubStatus {
            version: VERSION,
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            uptime_ms: milliseconds(identity.started.elapsed()),
            network_namespace: identity.namespace,
            runtime_dir: identity.runtime_dir.clone(),
            slots: group.map_or(0, |group| group.capacity() as u32),
            free_slots: group.map_or(0, |group| group.free() as u32),
            receive_buffer_bytes: group.map_or(0, |group| group.receive_buffer_bytes()),
            recovered: group.is_some_and(|group| group.recovered()),
            clients: self.clients.iter().filter_map(|(id, client)| self.client(id, client)).collect(),
            managers: self.clients.iter().filter_map(|(id, client)| self.manager(id, client)).collect(),
            mads: self.relay.counters().clone(),
            ..HubStatus::default()
        }
    }

    fn client(&self, id: ClientId, connection: &ClientConnection) -> Option<ClientStatus> {
        let client = self.attachments.get(id)?;
        Some(ClientStatus {
            pid: connection.pid,
            program: connection.program.clone(),
            slots: client.slots.clone(),
            attached_ms: milliseconds(client.age()),
            introductions: self.introductions.count(id),
            counters: client.counters(),
        })
    }

    fn manager(&self, id: ClientId, connection: &ClientConnection) -> Option<ManagerStatus> {
        Some(ManagerStatus {
            pid: connection.pid,
            program: connection.program.clone(),
            mads_delivered: connection.mads_delivered,
            mads_lost: connection.mads_lost,
            ..self.relay.client_status(id)?
        })
    }
}

/// A duration in whole milliseconds.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

//! The hub's state for people and programs.

use super::connection::Connection;
use super::server::Server;
use crate::counters::Snapshot;
use crate::message::VERSION;
use crate::status::{ClientStatus, MAX_PORTS_SHOWN, ManagerStatus, Status};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

impl Server {
    /// Everything that the hub knows now.
    pub(super) fn status(&self) -> Status {
        let attached = self.connections.iter().filter(|(_, connection)| connection.is_attached());
        let group = self.port.group();
        Status {
            version: VERSION,
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            uptime_ms: milliseconds(self.started.elapsed()),
            network_namespace: self.rendezvous.namespace(),
            runtime_dir: self.rendezvous.path().display().to_string(),
            idle_timeout_ms: self.options.idle_timeout.map(milliseconds),
            slots: group.map_or(0, |group| group.capacity() as u32),
            free_slots: group.map_or(0, |group| group.free() as u32),
            receive_buffer_bytes: group.map_or(0, |group| group.receive_buffer_bytes()),
            recovered: group.is_some_and(|group| group.recovered()),
            clients: attached.map(|(id, connection)| self.client(*id, connection)).collect(),
            managers: self.connections.iter().filter_map(|(id, connection)| self.manager(*id, connection)).collect(),
            counters: self.counters.clone(),
            mads: self.relay.counters.clone(),
        }
    }

    fn client(&self, id: u64, connection: &Connection) -> ClientStatus {
        let page = connection.belongings.counters.as_ref();
        ClientStatus {
            pid: connection.pid,
            program: connection.program.clone(),
            slots: connection.slots.clone(),
            attached_ms: milliseconds(Instant::now().saturating_duration_since(connection.since)),
            introductions: self.introductions.count(id),
            counters: page.and_then(|page| Snapshot::read(page.as_fd()).ok()),
        }
    }

    fn manager(&self, id: u64, connection: &Connection) -> Option<ManagerStatus> {
        let managing = connection.managing.as_ref()?;
        Some(ManagerStatus {
            number: managing.number,
            pid: connection.pid,
            program: connection.program.clone(),
            ports: self.relay.ports.of(id).take(MAX_PORTS_SHOWN).collect(),
            ports_total: self.relay.ports.count(id) as u64,
            closing_messages: managing.closing.len() as u64,
            mads_delivered: connection.mads_delivered,
            mads_sent: managing.sent,
            mads_lost: connection.mads_lost,
        })
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

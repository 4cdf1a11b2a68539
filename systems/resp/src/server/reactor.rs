//! The loop: what epoll tells, then the replies of the round.

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use longarm_kv::{LocalTable, MemberMessages};
use parking_lot::Mutex;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::time::Timespec;
use rustls::ServerConfig;

use super::serve::RespConnection;
use super::wire::RespWire;
use crate::commands::pubsub;
use crate::door::{Door, DoorCounts};
use crate::valkey::ValkeyListener;

/// The number of the listener among those of clients.
pub(super) const LISTENER: u64 = 0;
/// That of the bell that rings when connections come by RDMA.
pub(super) const BELL: u64 = u64::MAX;
/// That of messages of other members' doors.
pub(super) const MAIL: u64 = u64::MAX - 1;
/// Time between two looks at connections by RDMA, which tell nothing when the peer's host vanishes.
const TEND: Duration = Duration::from_secs(1);
/// Events of one round.
const MOST_EVENTS: usize = 1024;
/// The thread looks so often whether it shall end.
const LOOK_AROUND: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The door's thread.
pub(super) struct DoorLoop {
    pub(super) listener: TcpListener,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) epoll: OwnedFd,
    pub(super) table: LocalTable,
    pub(super) door: Door,
    pub(super) connections: HashMap<u64, RespConnection>,
    pub(super) next_id: u64,
    /// Bytes of requests that are not yet whole, of all clients.
    pub(super) pending_bytes: usize,
    /// Connections that may have bytes though epoll does not tell.
    pub(super) again: Vec<u64>,
    /// Connections of this round.
    pub(super) active: Vec<u64>,
    pub(super) scratch: Vec<u8>,
    pub(super) counts: Arc<Mutex<DoorCounts>>,
    pub(super) stopping: Arc<AtomicBool>,
    /// Connections by RDMA, and the number of all connections, which it has to know.
    pub(super) valkey: Option<ValkeyListener>,
    pub(super) open: Arc<AtomicUsize>,
    pub(super) tended: Instant,
}

impl DoorLoop {
    /// Runs until the door closes.
    pub(super) fn run(mut self) {
        let mut events = Vec::with_capacity(MOST_EVENTS);
        while !self.stopping.load(Ordering::Acquire) {
            events.clear();
            let timeout = if self.again.is_empty() { LOOK_AROUND } else { AT_ONCE };
            // An interrupted wait is one without events.
            let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&timeout));
            self.round(&events);
        }
    }

    fn round(&mut self, events: &[Event]) {
        let mut is_arrival = false;
        for again in std::mem::take(&mut self.again) {
            self.serve(again, EventFlags::IN);
        }
        for event in events {
            // Fields of a packed structure.
            let (data, flags) = (event.data, event.flags);
            match data.u64() {
                LISTENER => is_arrival = true,
                BELL => self.accept_rdma(),
                MAIL => pubsub::spread_from_others(&mut self.door),
                id => self.serve(id, flags),
            }
        }
        self.finish_round();
        if is_arrival {
            self.accept();
        }
        if self.valkey.is_some() {
            self.tend();
        }
        self.door.counts.clients = self.connections.len() as u64;
        self.door.counts.lost_messages = self.door.messages.as_ref().map_or(0, MemberMessages::lost);
        *self.counts.lock() = self.door.counts;
    }

    /// Ends connections by RDMA whose peers are of no use.
    fn tend(&mut self) {
        self.open.store(self.connections.len(), Ordering::Relaxed);
        let now = Instant::now();
        if now.duration_since(self.tended) < TEND {
            return;
        }
        self.tended = now;
        let mut useless = Vec::new();
        for (id, connection) in &mut self.connections {
            if let RespWire::Valkey(wire) = &mut connection.wire
                && wire.tend(now).is_err()
            {
                useless.push(*id);
            }
        }
        useless.into_iter().for_each(|id| self.close(id));
    }

    /// Sends replies, and ends connections.
    fn finish_round(&mut self) {
        let mut ids = std::mem::take(&mut self.active);
        ids.append(&mut self.door.touched);
        // One sync of the disk serves all clients of the round.
        let is_known = ids.is_empty() || self.table.wait_for_disk().is_ok();
        for id in &ids {
            match is_known && self.wait_for_backups(*id) {
                true => self.settle(*id),
                // Nobody knows which changes will be there after a restart, or at the next primary.
                false => self.close(*id),
            }
        }
        ids.clear();
        self.active = ids;
    }

    /// Waits until backups have all that a client's replies tell. False if nobody will know. Backups get the changes of all
    /// clients of the round together, so only the first wait is one.
    fn wait_for_backups(&mut self, id: u64) -> bool {
        let Some(client) = self.door.clients.get_mut(&id) else { return true };
        !client.is_unknown && self.table.wait_for_backups(std::mem::take(&mut client.settles)).is_ok()
    }

    /// Sends what a connection can take, and tells epoll what it waits for.
    fn settle(&mut self, id: u64) {
        let (Some(connection), Some(client)) = (self.connections.get_mut(&id), self.door.clients.get_mut(&id)) else {
            return;
        };
        let is_sent = connection.send(client);
        if connection.is_too_slow(client) {
            self.door.counts.slow += 1;
            client.is_killed = true;
        }
        if client.is_killed || is_sent.is_err() || (client.is_leaving && connection.has_sent_all(client)) {
            return self.close(id);
        }
        if connection.resumes(client) {
            self.again.push(id);
        }
        let wanted = connection.wants(client);
        if wanted != connection.interest {
            connection.interest = wanted;
            if epoll::modify(&self.epoll, &connection.wire, EventData::new_u64(id), wanted).is_err() {
                self.close(id);
            }
        }
    }

    pub(super) fn close(&mut self, id: u64) {
        if let Some(mut connection) = self.connections.remove(&id) {
            self.pending_bytes -= connection.pending.len();
            connection.wire.close();
            // Closing the socket would take it out as well.
            let _ = epoll::delete(&self.epoll, &connection.wire);
            if let (RespWire::Valkey(wire), Some(valkey)) = (connection.wire, &self.valkey) {
                valkey.end(wire);
            }
        }
        if let Some(mut client) = self.door.clients.remove(&id) {
            self.door.forget(&mut client);
        }
    }
}

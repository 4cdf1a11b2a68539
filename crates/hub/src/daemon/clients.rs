//! All connections of clients, and the sending of queued messages.
//!
//! Outside this module: it does not read requests. It reports the connections to close; the caller
//! [removes](Clients::remove) them and cleans up.

mod connection;

pub(super) use connection::{ClientConnection, ClientStage};

use super::epoll_set::{EpollSet, EventSource};
use super::response::{ClientId, ClientResponse};
use crate::channel;
use crate::message::{ErrorCode, Reply};
use crate::record::DeviceRecord;
use crate::rendezvous;
use crate::status::HubCounters;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// Most connections: one for each slot's owner, and as many that only ask.
const MAX_CONNECTIONS: usize = 512;

/// The connections by the number that the hub gave them.
#[derive(Debug, Default)]
pub(super) struct Clients {
    connections: BTreeMap<ClientId, ClientConnection>,
    next_id: ClientId,
    /// Connections to flush.
    unflushed: BTreeSet<ClientId>,
}

impl Clients {
    /// Takes an accepted connection, or tells the client why not.
    pub(super) fn admit(&mut self, socket: OwnedFd, epoll: &EpollSet, counters: &mut HubCounters) {
        counters.connections += 1;
        let peer = match rendezvous::own_peer(socket.as_fd()) {
            Ok(Ok(peer)) => peer,
            Ok(Err(stranger)) => {
                counters.refused_users += 1;
                log::warn!("refused process {} of user {}", stranger.pid, stranger.uid);
                let uid = rustix::process::geteuid().as_raw();
                let reason = format!("this is the hub of user {uid}, and you are user {}", stranger.uid);
                return refuse(&socket, ErrorCode::WrongUser, &reason);
            }
            Err(error) => return log::warn!("cannot tell who connected: {error}"),
        };
        if self.connections.len() >= MAX_CONNECTIONS {
            counters.refused_others += 1;
            let reason = format!("{MAX_CONNECTIONS} connections are the most");
            return refuse(&socket, ErrorCode::TooManyConnections, &reason);
        }
        let id = self.next_id;
        self.next_id += 1;
        let connection = ClientConnection::new(socket, peer);
        match watch(epoll, id, &connection) {
            Ok(()) => drop(self.connections.insert(id, connection)),
            Err(error) => log::warn!("cannot watch a connection: {error}"),
        }
    }

    pub(super) fn get(&self, id: ClientId) -> Option<&ClientConnection> {
        self.connections.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: ClientId) -> Option<&mut ClientConnection> {
        self.connections.get_mut(&id)
    }

    /// All connections, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ClientId, &ClientConnection)> {
        self.connections.iter().map(|(id, connection)| (*id, connection))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Forgets a connection. Its descriptors close when the caller drops it.
    pub(super) fn remove(&mut self, id: ClientId) -> Option<ClientConnection> {
        self.unflushed.remove(&id);
        self.connections.remove(&id)
    }

    /// Queues the answer to a message.
    pub(super) fn respond(&mut self, id: ClientId, response: ClientResponse) {
        let (reply, descriptors, is_final) = match response {
            ClientResponse::Reply(reply, descriptors) => (reply, descriptors, false),
            ClientResponse::Final(reply) => (reply, Vec::new(), true),
            ClientResponse::None => return,
        };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if is_final {
            connection.close_reason = Some("its message was not understood or not allowed".into());
        }
        if let Err(error) = connection.queue(&reply, descriptors) {
            let reply = Reply::error(ErrorCode::System, format!("the hub cannot make its answer: {error}"));
            if connection.queue(&reply, Vec::new()).is_err() {
                connection.close_reason = Some(error.to_string());
            }
        }
        self.unflushed.insert(id);
    }

    /// Queues a MAD's frame. Returns whether there was room; `None` if the client is gone.
    pub(super) fn queue_mad(&mut self, id: ClientId, frame: Vec<u8>) -> Option<bool> {
        let was_queued = self.connections.get_mut(&id)?.queue_mad(frame);
        self.unflushed.insert(id);
        Some(was_queued)
    }

    /// Sends a message immediately, or not at all: see [`ClientConnection::send_now`].
    pub(super) fn send_now(&self, id: ClientId, reply: &Reply, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.get(id).ok_or(io::ErrorKind::BrokenPipe)?.send_now(reply, descriptors)
    }

    /// The devices changed: all members hear about it once their outbox is empty.
    pub(super) fn notify_devices(&mut self) {
        for (id, connection) in self.connections.iter_mut().filter(|(_, connection)| connection.is_member()) {
            connection.devices_due = true;
            if !connection.has_outgoing() {
                self.unflushed.insert(*id);
            }
        }
    }

    /// The client's socket has room again.
    pub(super) fn mark_unflushed(&mut self, id: ClientId) {
        self.unflushed.insert(id);
    }

    /// Sends as much as possible of what was queued. Returns the connections to close, with reasons.
    pub(super) fn flush(&mut self, epoll: &EpollSet, devices: &[DeviceRecord]) -> Vec<(ClientId, String)> {
        let mut to_close = Vec::new();
        for id in std::mem::take(&mut self.unflushed) {
            let connection = self.connections.get_mut(&id).expect("`remove` takes a connection out of both");
            if let Err(error) = flush(id, connection, epoll, devices) {
                to_close.push((id, error.to_string()));
            } else if let Some(reason) = connection.close_reason.take() {
                to_close.push((id, reason));
            }
        }
        to_close
    }

    /// When the next connection [expires](Clients::expired).
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.connections.values().filter_map(ClientConnection::expires_at).min()
    }

    /// The connections that have done nothing for too long.
    pub(super) fn expired(&self, now: Instant) -> Vec<ClientId> {
        let expired = self.iter().filter(|(_, connection)| connection.expires_at().is_some_and(|at| now >= at));
        expired.map(|(id, _)| id).collect()
    }
}

/// Sends as much as possible, the news about devices last, and watches for room for the rest.
fn flush(
    id: ClientId,
    connection: &mut ClientConnection,
    epoll: &EpollSet,
    devices: &[DeviceRecord],
) -> io::Result<()> {
    if std::mem::take(&mut connection.devices_due) {
        let changed = Reply::DevicesChanged { devices: devices.to_vec() };
        if let Err(error) = connection.queue(&changed, Vec::new()) {
            log::warn!("cannot tell process {} about the devices: {error}", connection.pid);
        }
    }
    connection.flush()?;
    let awaits_room = connection.has_outgoing();
    if awaits_room != connection.awaits_room {
        epoll.change(&*connection, EventSource::Connection(id), awaits_room)?;
        connection.awaits_room = awaits_room;
    }
    Ok(())
}

fn watch(epoll: &EpollSet, id: ClientId, connection: &ClientConnection) -> io::Result<()> {
    epoll.add(connection, EventSource::Connection(id))?;
    match connection.process() {
        Some(process) => epoll.add(process, EventSource::Process(id)),
        None => Ok(()),
    }
}

/// Tells a client why its connection is not taken. The connection closes in any case.
fn refuse(socket: &OwnedFd, code: ErrorCode, reason: &str) {
    if let Ok((bytes, None)) = Reply::error(code, reason).encode() {
        let _ = channel::send(socket.as_fd(), &bytes, &[]);
    }
}

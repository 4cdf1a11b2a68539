//! The event loop: waits, reads from clients, has the hub handle it, and sends.

use super::clients::Clients;
use super::epoll_set::{EpollSet, EventSource};
use super::error::HubError;
use super::foreign_sockets;
use super::hub::Hub;
use super::listener::HubListener;
use super::options::DaemonOptions;
use super::response::{ClientId, ClientResponse};
use crate::channel::ReceiveError;
use crate::mad::HubFrame;
use crate::message::{ErrorCode, Reply};
use crate::rendezvous::{HubLock, Rendezvous};
use std::time::{Duration, Instant};

/// Most frames read from one client before the others get a turn.
const MAX_FRAMES: usize = 64;

/// The time between two checks of the socket file and of the devices.
const HOUSEKEEPING: Duration = Duration::from_secs(10);

/// The hub's one thread with everything that it serves.
#[derive(Debug)]
pub(super) struct Server {
    epoll: EpollSet,
    listener: HubListener,
    clients: Clients,
    hub: Hub,
    /// When the last member left.
    alone_since: Instant,
    next_housekeeping: Instant,
}

impl Server {
    /// Listens, binds the port or begins to wait for it, and announces that clients can connect.
    pub(super) fn new(rendezvous: Rendezvous, lock: HubLock, options: &DaemonOptions) -> Result<Server, HubError> {
        let now = Instant::now();
        let hub = Hub::new(options, rendezvous.namespace(), rendezvous.path())?;
        let epoll = EpollSet::new().map_err(HubError::system("wait for clients"))?;
        let listener = HubListener::new(rendezvous, lock, &epoll)?;
        epoll.add(&hub.devices, EventSource::Devices).map_err(HubError::system("watch the interfaces"))?;
        let clients = Clients::default();
        let mut server =
            Server { epoll, listener, clients, hub, alone_since: now, next_housekeeping: now + HOUSEKEEPING };
        server.watch_new_sockets()?;
        // Also without the port: the client that waits may be the one with the keeper.
        options.announce.ready();
        Ok(server)
    }

    /// Serves until the hub is told to exit or idle for too long.
    pub(super) fn run(&mut self) -> Result<(), HubError> {
        loop {
            let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
            let sources = self.epoll.wait(timeout).map_err(HubError::system("wait for clients"))?;
            for source in sources {
                self.handle(source)?;
                self.flush();
            }
            let ticked = self.tick(Instant::now());
            self.flush();
            ticked?;
            self.watch_new_sockets()?;
            if self.hub.is_told_to_exit || self.has_been_idle() {
                self.announce_exit();
                return Ok(());
            }
        }
    }

    /// Removes the hub's files; the lock is released last.
    pub(super) fn exit(self) {
        self.listener.close();
    }

    fn handle(&mut self, source: EventSource) -> Result<(), HubError> {
        match source {
            EventSource::Listener => {
                for socket in self.listener.accept(&self.epoll) {
                    self.clients.admit(socket, &self.epoll, &mut self.hub.counters);
                }
            }
            EventSource::Slot0 => self.hub.receive_slot0(&mut self.clients),
            EventSource::Undelivered => self.hub.return_undelivered(&mut self.clients),
            EventSource::Devices => self.hub.read_device_monitor(&mut self.clients),
            EventSource::Connection(id) => self.read(id)?,
            EventSource::Process(id) => self.drop_client(id, "its process ended"),
        }
        Ok(())
    }

    /// Reads one request of a client, or several frames. No more, so that all clients get a turn.
    fn read(&mut self, id: ClientId) -> Result<(), HubError> {
        for _ in 0..MAX_FRAMES {
            if !self.read_message(id)? {
                break;
            }
        }
        Ok(())
    }

    /// Returns whether the message was a frame.
    fn read_message(&mut self, id: ClientId) -> Result<bool, HubError> {
        let Some(connection) = self.clients.get(id) else { return Ok(false) };
        if connection.has_outgoing() {
            self.clients.mark_unflushed(id);
            return Ok(false);
        }
        match connection.receive() {
            Ok(message) => {
                let was_frame = HubFrame::is_frame(&message.bytes);
                self.hub.handle_message(&mut self.clients, id, message)?;
                return Ok(was_frame);
            }
            Err(ReceiveError::Nothing) => {}
            Err(ReceiveError::Closed) => self.drop_client(id, "it closed the connection"),
            Err(error @ (ReceiveError::TooLong | ReceiveError::TooManyDescriptors)) => {
                self.hub.counters.malformed += 1;
                self.clients.respond(id, ClientResponse::Final(Reply::error(ErrorCode::Malformed, error)));
            }
            Err(error @ ReceiveError::NoDescriptorsLeft) => {
                log::warn!("{error}");
                let reply = Reply::error(ErrorCode::System, format!("the hub: {error}"));
                self.clients.respond(id, ClientResponse::Final(reply));
            }
            Err(ReceiveError::System(error)) => self.drop_client(id, &error.to_string()),
        }
        Ok(false)
    }

    /// Sends what was queued, and drops the clients that are to be closed.
    fn flush(&mut self) {
        for (id, reason) in self.clients.flush(&self.epoll, self.hub.devices.list()) {
            self.drop_client(id, &reason);
        }
    }

    fn drop_client(&mut self, id: ClientId, reason: &str) {
        let Some(connection) = self.clients.remove(id) else { return };
        self.hub.remove_client(id, &connection, reason);
        if connection.is_member() {
            self.alone_since = Instant::now();
        }
    }

    /// Watches sockets that the hub has opened since the last call.
    fn watch_new_sockets(&mut self) -> Result<(), HubError> {
        if let Some(slot0) = self.hub.port.take_new_slot0() {
            self.epoll.add(slot0, EventSource::Slot0).map_err(HubError::system("watch slot 0"))?;
        }
        for socket in self.hub.relay.take_unwatched().into_iter().flatten() {
            if let Err(error) = self.epoll.add_for_errors(socket, EventSource::Undelivered) {
                log::warn!("cannot watch QP1 for errors: {error}");
            }
        }
        Ok(())
    }

    /// The time of the next [`tick`](Server::tick), if there is no event before.
    fn next_deadline(&self) -> Option<Instant> {
        let hub = self.hub.next_deadline(Instant::now());
        let own = [Some(self.next_housekeeping), self.listener.next_deadline(), self.idle_end()];
        own.into_iter().chain([hub, self.clients.next_expiry()]).flatten().min()
    }

    /// Does everything that is due.
    fn tick(&mut self, now: Instant) -> Result<(), HubError> {
        self.hub.tick(now, &mut self.clients)?;
        for id in self.clients.expired(now) {
            self.drop_client(id, "it did nothing");
        }
        if now >= self.next_housekeeping {
            self.next_housekeeping = now + HOUSEKEEPING;
            self.hub.refresh_devices(&mut self.clients);
            self.listener.restore_if_removed();
        }
        self.listener.resume(now, &self.epoll)
    }

    /// When the hub exits if no client connects.
    fn idle_end(&self) -> Option<Instant> {
        let timeout = self.hub.idle_timeout().filter(|_| self.clients.is_empty());
        // A time beyond the clock's range is never.
        timeout.and_then(|timeout| self.alone_since.checked_add(timeout))
    }

    /// Whether the hub has had no clients for so long that it exits.
    fn has_been_idle(&mut self) -> bool {
        let now = Instant::now();
        let is_over = self.idle_end().is_some_and(|end| now >= end);
        if is_over && self.hub.holds_port() && foreign_sockets::exist() {
            self.alone_since = now;
            return false;
        }
        is_over
    }

    /// Tells the clients that they need not start a new hub.
    fn announce_exit(&mut self) {
        for id in self.clients.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.clients.respond(id, Reply::Leaving.into());
        }
        self.flush();
    }
}

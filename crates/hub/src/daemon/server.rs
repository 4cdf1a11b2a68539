//! The loop: what happened, who is concerned, and when to look again.

use super::DaemonOptions;
use super::connection::{Connection, Stage};
use super::devices::Devices;
use super::error::HubError;
use super::introductions::Introductions;
use super::recovery::Port;
use super::relay::Relay;
use super::watch::{Source, Watch};
use crate::channel;
use crate::message::{ErrorCode, Reply};
use crate::rendezvous::{self, Lock, Rendezvous, RendezvousError};
use crate::status::HubCounters;
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// Most connections at once: every slot's owner, and as many who only ask.
const MAX_CONNECTIONS: usize = 512;

/// Connections accepted before the hub looks after the others again.
const MAX_ACCEPTS: usize = 32;

/// How long a connection may do nothing without being attached.
const IDLE_CONNECTION: Duration = Duration::from_secs(30);

/// How often the hub looks whether its socket is still there, and at the devices.
const HOUSEKEEPING: Duration = Duration::from_secs(10);

/// How long no connections are accepted after descriptors ran out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// All that the hub is.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) rendezvous: Rendezvous,
    pub(super) options: DaemonOptions,
    pub(super) watch: Watch,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) devices: Devices,
    pub(super) port: Port,
    pub(super) counters: HubCounters,
    pub(super) relay: Relay,
    pub(super) introductions: Introductions,
    pub(super) started: Instant,
    /// Set when the hub was told to leave.
    pub(super) leaving: bool,
    lock: Lock,
    listener: OwnedFd,
    socket_inode: Option<u64>,
    next_id: u64,
    /// Since when nobody has been attached.
    alone_since: Instant,
    next_housekeeping: Instant,
    accept_again: Option<Instant>,
}

/// What to do with a connection after its request.
#[derive(Debug)]
pub(super) enum Answer {
    /// Say this.
    Say(Reply, Vec<OwnedFd>),
    /// Say this and close the connection.
    Last(Reply),
    /// Say nothing yet.
    Later,
}

impl Server {
    pub(super) fn new(rendezvous: Rendezvous, lock: Lock, options: &DaemonOptions) -> Result<Server, HubError> {
        let now = Instant::now();
        let port = Port::bind(options, rendezvous.namespace())?;
        let listener = rendezvous.listen()?;
        let watch = Watch::new().map_err(HubError::system("wait for clients"))?;
        watch.add(&listener, Source::Listener).map_err(HubError::system("wait for clients"))?;
        let devices = Devices::new().map_err(HubError::system("list the network interfaces"))?;
        watch.add(&devices, Source::Devices).map_err(HubError::system("watch the interfaces"))?;
        let server = Server {
            socket_inode: rendezvous.socket_inode(),
            rendezvous,
            lock,
            options: options.clone(),
            watch,
            connections: BTreeMap::new(),
            devices,
            port,
            counters: HubCounters::default(),
            relay: Relay::new(),
            introductions: Introductions::default(),
            started: now,
            leaving: false,
            listener,
            next_id: 0,
            alone_since: now,
            next_housekeeping: now + HOUSEKEEPING,
            accept_again: None,
        };
        server.watch_port()?;
        // Also if the port is still wanted: who waits may be the one that brings the keeper.
        super::announce_ready(options.announce);
        Ok(server)
    }

    /// Serves until it is time to leave.
    pub(super) fn run(&mut self) -> Result<(), HubError> {
        loop {
            let timeout = self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
            let sources = self.watch.wait(timeout).map_err(HubError::system("wait for clients"))?;
            for source in sources {
                self.handle(source)?;
            }
            self.watch_gsi();
            self.tick(Instant::now())?;
            if self.leaving || self.has_been_idle() {
                self.say_goodbye();
                return Ok(());
            }
        }
    }

    /// Whether nobody has needed the hub for so long that it leaves.
    fn has_been_idle(&mut self) -> bool {
        let now = Instant::now();
        let over = self.idle_end().is_some_and(|end| now >= end);
        if over && self.is_port_held_elsewhere() {
            self.alone_since = now;
            return false;
        }
        over
    }

    fn handle(&mut self, source: Source) -> Result<(), HubError> {
        match source {
            Source::Listener => self.accept(),
            Source::Stray => self.receive_stray_packets(),
            Source::Undelivered => self.return_undelivered(),
            Source::Devices => {
                let changed = self.devices.take_changes();
                self.tell_devices(changed);
            }
            Source::Connection(id) => self.converse(id)?,
            Source::Process(id) => self.drop_connection(id, "its process ended"),
        }
        Ok(())
    }

    /// When something has to be done even if nothing happens.
    fn next_deadline(&self) -> Option<Instant> {
        let unattached = self.connections.values().filter(|c| may_expire(c));
        let expiry = unattached.map(|c| c.since + IDLE_CONNECTION).min();
        let wills = self.relay.closing.next_deadline(Instant::now());
        let early = self.relay.early.next_deadline();
        let fixed = [Some(self.next_housekeeping), self.accept_again, self.port.next_deadline(), wills, early];
        fixed.into_iter().chain([self.idle_end(), expiry]).flatten().min()
    }

    /// When the hub leaves if nobody comes.
    fn idle_end(&self) -> Option<Instant> {
        let idle = self.connections.is_empty() && self.relay.closing.is_empty();
        let timeout = self.options.idle_timeout.filter(|_| idle);
        // A time that no clock will ever show is never.
        timeout.and_then(|timeout| self.alone_since.checked_add(timeout))
    }

    /// Does what is due.
    fn tick(&mut self, now: Instant) -> Result<(), HubError> {
        self.advance_port(now)?;
        self.relay.carry_out(now, self.devices.list());
        self.relay_early(now);
        let expired = self.connections.iter().filter(|(_, c)| may_expire(c) && now >= c.since + IDLE_CONNECTION);
        for id in expired.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.drop_connection(id, "it did nothing");
        }
        if self.accept_again.is_some_and(|at| now >= at) {
            self.accept_again = None;
            self.watch.add(&self.listener, Source::Listener).map_err(HubError::system("accept clients"))?;
        }
        if now >= self.next_housekeeping {
            self.next_housekeeping = now + HOUSEKEEPING;
            let changed = self.devices.list_again();
            self.tell_devices(changed);
            self.listen_again_if_lost()?;
        }
        Ok(())
    }

    /// Whoever cleans up old files may have removed the socket, or the whole directory.
    fn listen_again_if_lost(&mut self) -> Result<(), HubError> {
        if self.rendezvous.socket_inode() == self.socket_inode {
            return Ok(());
        }
        log::warn!("{} was removed, and is made again", self.rendezvous.socket_path().display());
        match self.listen_again() {
            Ok(true) => {}
            Ok(false) => log::error!("another process has the lock now"),
            Err(error) => log::error!("{error}"),
        }
        Ok(())
    }

    /// Returns whether it worked; not if another process has the lock.
    fn listen_again(&mut self) -> Result<bool, RendezvousError> {
        let rendezvous = self.rendezvous.place().open()?;
        if !rendezvous.same_lock_file(&self.lock) {
            let Some(lock) = rendezvous.lock()? else { return Ok(false) };
            self.lock = lock;
        }
        self.listener = rendezvous.listen()?;
        self.socket_inode = rendezvous.socket_inode();
        self.rendezvous = rendezvous;
        // Watches the new socket at the next opportunity, with the retries that there are.
        self.accept_again = Some(Instant::now());
        Ok(true)
    }

    /// Removes the hub's files; the lock is released last.
    pub(super) fn leave(self) {
        self.rendezvous.leave(self.lock);
    }

    fn accept(&mut self) {
        for _ in 0..MAX_ACCEPTS {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.listener, flags) {
                Ok(socket) => self.welcome(socket),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return self.pause_accepting(error),
            }
        }
    }

    /// Without this, a hub that has no descriptors left would try for ever.
    fn pause_accepting(&mut self, error: Errno) {
        log::warn!("cannot accept a connection: {error}");
        if self.watch.remove(&self.listener).is_ok() {
            self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
        }
    }

    /// Takes a new connection, or tells it why not.
    fn welcome(&mut self, socket: OwnedFd) {
        self.counters.connections += 1;
        let peer = match rendezvous::own_peer(socket.as_fd()) {
            Ok(Ok(peer)) => peer,
            Ok(Err(stranger)) => {
                self.counters.refused_users += 1;
                log::warn!("refused process {} of user {}", stranger.pid, stranger.uid);
                let uid = rustix::process::geteuid().as_raw();
                let reason = format!("this is the hub of user {uid}, and you are user {}", stranger.uid);
                return refuse(&socket, ErrorCode::WrongUser, &reason);
            }
            Err(error) => return log::warn!("cannot tell who connected: {error}"),
        };
        if self.connections.len() >= MAX_CONNECTIONS {
            self.counters.refused_others += 1;
            let reason = format!("{MAX_CONNECTIONS} connections are the most");
            return refuse(&socket, ErrorCode::TooManyConnections, &reason);
        }
        let id = self.next_id;
        self.next_id += 1;
        let connection = Connection::new(socket, peer);
        match self.watch_connection(id, &connection) {
            Ok(()) => drop(self.connections.insert(id, connection)),
            Err(error) => log::warn!("cannot watch a connection: {error}"),
        }
    }

    fn watch_connection(&self, id: u64, connection: &Connection) -> io::Result<()> {
        self.watch.add(connection, Source::Connection(id))?;
        match connection.process() {
            Some(process) => self.watch.add(process, Source::Process(id)),
            None => Ok(()),
        }
    }

    /// Forgets a client and takes its slots back.
    pub(super) fn drop_connection(&mut self, id: u64, reason: &str) {
        let Some(mut connection) = self.connections.remove(&id) else { return };
        self.bury(id, &mut connection);
        self.introductions.forget(id);
        let Connection { pid, program, slots, .. } = &connection;
        if connection.is_attached() {
            self.counters.detached += 1;
            self.port.take_back(slots, id);
            log::info!("detached process {pid} ({program}) from slots {slots:?}: {reason}");
        } else {
            log::debug!("connection of process {pid} ({program}) ends: {reason}");
        }
        if connection.is_member() {
            self.alone_since = Instant::now();
        }
    }

    fn tell_devices(&mut self, changed: io::Result<bool>) {
        match changed {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => return log::warn!("cannot list the devices: {error}"),
        }
        let attached = self.connections.iter_mut().filter(|(_, c)| c.is_member());
        let mut ready = Vec::new();
        for (id, connection) in attached {
            connection.devices_due = true;
            if !connection.has_outgoing() {
                ready.push(*id);
            }
        }
        ready.into_iter().for_each(|id| self.flush(id));
    }

    /// Tells the clients that no new hub is needed.
    fn say_goodbye(&mut self) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            self.give(id, Answer::Say(Reply::Leaving, Vec::new()));
        }
    }

    /// Watches slot 0, if the port is held.
    pub(super) fn watch_port(&self) -> Result<(), HubError> {
        match self.port.stray_packets() {
            Some(stray) => self.watch.add(stray, Source::Stray).map_err(HubError::system("watch slot 0")),
            None => Ok(()),
        }
    }
}

/// Whether a connection is closed if it does nothing.
fn may_expire(connection: &Connection) -> bool {
    matches!(connection.stage, Stage::Fresh | Stage::Greeted)
}

/// Tells a connection that is not taken why.
fn refuse(socket: &OwnedFd, code: ErrorCode, reason: &str) {
    if let Ok((bytes, None)) = Reply::error(code, reason).encode() {
        // It is not taken whether it hears that or not.
        let _ = channel::send(socket.as_fd(), &bytes, &[]);
    }
}

//! Rights to tables: made by a proof, named by a secret number, revocable.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use longarm::{BoundWindow, Connection, RemoteKey};
use longarm_rpc::Status;
use parking_lot::Mutex;
use remote::{LastAccess, WriterPass};

use crate::clock::now_ns;
use crate::proof::Nonce;
use crate::protocol::GrantKey;
use crate::server::random::fill_random;
use crate::server::separate::{SeparateMemory, SeparateRight};
use crate::server::served::ServedTable;

/// An access of a client that was cut off is waited for so long.
const LAST_ACCESS: Duration = Duration::from_millis(5);
const NOW: Duration = Duration::ZERO;
/// Grants at a time.
const MOST_GRANTS: usize = 1 << 16;
/// Challenges that wait for their answer.
const MOST_CHALLENGES: usize = 1024;
/// A challenge that is not answered by then is forgotten.
const CHALLENGE_NS: u64 = 10_000_000_000;
/// A grant without a connection that nobody uses for so long is forgotten. So is a revoked one.
const IDLE_NS: u64 = 600_000_000_000;

/// A client's end of the connection for its READs, and the window that the connection opens.
pub(crate) struct DataEnd {
    link: Option<Box<dyn ClientLink>>,
    writer: Option<AdmittedWriter>,
    pub(crate) attempt: u64,
}

/// A client's connection for READs, and the window that it opens: on a device, or in a simulation.
pub(crate) trait ClientLink: Send {
    fn key(&self) -> RemoteKey;
    fn peer_addr(&self) -> SocketAddr;
    fn is_connected(&self) -> bool;
    /// See [`Connection::cut_off`].
    fn cut_off(&self, longest: Duration) -> bool;
}

/// A connection on a device. The window goes first.
pub(crate) struct DeviceLink {
    pub(crate) window: BoundWindow<'static>,
    pub(crate) connection: Connection,
}

impl ClientLink for DeviceLink {
    fn key(&self) -> RemoteKey {
        self.window.key()
    }

    fn peer_addr(&self) -> SocketAddr {
        self.connection.peer_addr()
    }

    fn is_connected(&self) -> bool {
        self.connection.is_connected()
    }

    fn cut_off(&self, longest: Duration) -> bool {
        self.connection.cut_off(longest)
    }
}

/// A client's right to PUT alone.
pub(crate) struct AdmittedWriter {
    pass: WriterPass,
    table: Arc<ServedTable>,
    last_access: LastAccess,
}

/// A client that was cut off, and may be in the middle of a last access.
pub(crate) struct StandingWriter {
    link: Box<dyn ClientLink>,
    holder: u16,
}

impl AdmittedWriter {
    /// The right to PUT alone, if the table has one to give.
    pub(crate) fn admit(table: &Arc<ServedTable>) -> Option<AdmittedWriter> {
        let pass = table.writer.lock().admit_writer()?;
        Some(AdmittedWriter { pass, table: Arc::clone(table), last_access: LastAccess::Over })
    }
}

/// Nobody uses the right any more: it was cut off, or never told.
impl Drop for AdmittedWriter {
    fn drop(&mut self) {
        self.table.writer.lock().end_writer(self.pass.holder, self.last_access);
    }
}

impl DataEnd {
    pub(crate) fn new(link: Box<dyn ClientLink>, writer: Option<AdmittedWriter>, attempt: u64) -> DataEnd {
        DataEnd { link: Some(link), writer, attempt }
    }

    pub(crate) fn key(&self) -> Option<RemoteKey> {
        self.link.as_ref().map(|link| link.key())
    }

    pub(crate) fn pass(&self) -> Option<WriterPass> {
        self.writer.as_ref().map(|writer| writer.pass)
    }

    pub(crate) fn peer_addr(&self) -> Option<SocketAddr> {
        self.link.as_ref().map(|link| link.peer_addr())
    }

    fn is_connected(&self) -> bool {
        self.link.as_ref().is_some_and(|link| link.is_connected())
    }
}

/// Cuts the client off, and ends its lock.
impl Drop for DataEnd {
    fn drop(&mut self) {
        let (Some(mut writer), Some(link)) = (self.writer.take(), self.link.take()) else { return };
        if !link.cut_off(LAST_ACCESS) {
            let (holder, table) = (writer.pass.holder, Arc::clone(&writer.table));
            writer.last_access = LastAccess::MayCome;
            drop(writer);
            table.standing.lock().push(StandingWriter { link, holder });
        }
    }
}

impl ServedTable {
    /// Looks after clients that were cut off in the middle of an access, and gives their memory back once it is over.
    pub(crate) fn look_after_standing(&self) {
        // Windows and connections are dropped without the lock.
        let over: Vec<StandingWriter> = self.standing.lock().extract_if(.., |one| one.link.cut_off(NOW)).collect();
        for one in over {
            self.writer.lock().end_writer(one.holder, LastAccess::Over);
        }
        for one in self.standing.lock().iter() {
            // There may have been no room before.
            self.writer.lock().end_writer(one.holder, LastAccess::MayCome);
        }
    }
}

/// The right of one client to one table.
pub(crate) struct TableGrant {
    pub(crate) client: u64,
    pub(crate) table: Arc<ServedTable>,
    pub(crate) data: Mutex<Option<DataEnd>>,
    /// If another process exposes the tables: the right to connect there.
    separate: Mutex<Option<SeparateRight>>,
    is_revoked: AtomicBool,
    used_ns: AtomicU64,
}

impl TableGrant {
    /// Takes the right back: from now on READs with its key fail, and requests are refused.
    pub(crate) fn revoke(&self) -> bool {
        // An attachment that is under way looks at the mark with the lock held.
        let mut data = self.data.lock();
        *data = None;
        // This waits until the other process has dropped the window.
        *self.separate.lock() = None;
        !self.is_revoked.swap(true, Ordering::AcqRel)
    }

    /// The key of the client's window and the client's address, if its connection stands: that of an attempt, or of any.
    pub(crate) fn window(&self, attempt: Option<u64>) -> Option<(RemoteKey, SocketAddr)> {
        let is_meant = |other: u64| attempt.is_none_or(|attempt| attempt == other);
        if let Some(right) = &*self.separate.lock() {
            return right.window().filter(|open| is_meant(open.attempt)).map(|open| (open.key, open.peer));
        }
        let data = self.data.lock();
        let end = data.as_ref().filter(|end| is_meant(end.attempt));
        end.and_then(|end| Some((end.key()?, end.peer_addr()?)))
    }

    /// The client's right to PUT alone, if its connection of that attempt stands.
    pub(crate) fn pass(&self, attempt: u64) -> Option<WriterPass> {
        self.data.lock().as_ref().filter(|end| end.attempt == attempt)?.pass()
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.is_revoked.load(Ordering::Acquire)
    }

    pub(crate) fn idle_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.used_ns.load(Ordering::Relaxed))
    }
}

/// All rights that the server has given.
#[derive(Default)]
pub(crate) struct Grants {
    /// The keys are secret random numbers, so their hash needs no secret.
    by_key: Mutex<HashMap<GrantKey, Arc<TableGrant>, BuildHasherDefault<DefaultHasher>>>,
    challenges: Mutex<VecDeque<(Nonce, u64)>>,
    clients: AtomicU64,
    pub(crate) separate: Option<Arc<SeparateMemory>>,
}

impl Grants {
    /// No rights yet; later ones are good for that process, if there is one.
    pub(crate) fn new(separate: Option<Arc<SeparateMemory>>) -> Grants {
        Grants { separate, ..Grants::default() }
    }

    /// A nonce for a client to answer.
    pub(crate) fn challenge(&self) -> Result<Nonce, Status> {
        let mut nonce = [0; 32];
        fill_random(&mut nonce)?;
        let mut challenges = self.challenges.lock();
        if challenges.len() >= MOST_CHALLENGES {
            challenges.pop_front();
        }
        challenges.push_back((nonce, now_ns()));
        Ok(nonce)
    }

    /// Takes a nonce back. False if it is none of ours, was taken before, or is too old.
    pub(crate) fn take_challenge(&self, nonce: &Nonce) -> bool {
        let (mut challenges, now) = (self.challenges.lock(), now_ns());
        challenges.retain(|(_, made_ns)| now.saturating_sub(*made_ns) < CHALLENGE_NS);
        let at = challenges.iter().position(|(other, _)| other == nonce);
        at.and_then(|at| challenges.remove(at)).is_some()
    }

    /// A new right to a table.
    pub(crate) fn grant(&self, table: &Arc<ServedTable>) -> Result<(GrantKey, u64), Status> {
        let mut key = [0; 16];
        fill_random(&mut key)?;
        let separate = self.separate.as_ref().map(|memory| memory.allow(key, table)).transpose()?;
        let mut by_key = self.by_key.lock();
        if by_key.len() >= MOST_GRANTS {
            return Err(Status::unavailable(format!("the server has {MOST_GRANTS} clients, and takes no more")));
        }
        let client = self.clients.fetch_add(1, Ordering::Relaxed) + 1;
        let grant = TableGrant {
            client,
            table: Arc::clone(table),
            data: Mutex::new(None),
            separate: Mutex::new(separate),
            is_revoked: AtomicBool::new(false),
            used_ns: AtomicU64::new(now_ns()),
        };
        by_key.insert(key, Arc::new(grant));
        Ok((key, client))
    }

    /// The right with that number.
    pub(crate) fn find(&self, key: &GrantKey) -> Result<Arc<TableGrant>, Status> {
        let grant = self.by_key.lock().get(key).cloned();
        let grant = grant.ok_or_else(|| Status::aborted("no such grant: the client has to open the table"))?;
        if grant.is_revoked() {
            return Err(Status::permission_denied("the right to the table was revoked"));
        }
        grant.used_ns.store(now_ns(), Ordering::Relaxed);
        Ok(grant)
    }

    /// Ends a right.
    pub(crate) fn close(&self, key: &GrantKey) {
        let closed = self.by_key.lock().remove(key);
        if let Some(grant) = closed {
            grant.revoke();
        }
    }

    /// All rights to a table.
    pub(crate) fn of_table(&self, table: &Arc<ServedTable>) -> Vec<Arc<TableGrant>> {
        let by_key = self.by_key.lock();
        by_key.values().filter(|grant| Arc::ptr_eq(&grant.table, table)).cloned().collect()
    }

    /// Does what has to be done for a table from time to time: keys that have expired go, and locks whose lease has ended.
    pub(crate) fn tend(&self, table: &Arc<ServedTable>) {
        // Others take their turn between two batches.
        while table.writer.lock().set_now(now_ns()) {}
        table.look_after_standing();
        let overdue = table.writer.lock().take_overdue();
        overdue.into_iter().for_each(|holder| self.end_lease(table, holder));
    }

    /// Ends the connection of a client that has kept a lock for too long.
    fn end_lease(&self, table: &Arc<ServedTable>, holder: u16) {
        for grant in self.of_table(table) {
            let mut data = grant.data.lock();
            let is_its = |end: &DataEnd| end.pass().is_some_and(|pass| pass.holder == holder);
            if data.as_ref().is_some_and(is_its) {
                *data = None;
            }
        }
    }

    /// Drops connections that have ended, and forgets rights that nobody uses.
    pub(crate) fn keep_house(&self) {
        let all: Vec<(GrantKey, Arc<TableGrant>)> =
            self.by_key.lock().iter().map(|(key, grant)| (*key, Arc::clone(grant))).collect();
        let now = now_ns();
        for (key, grant) in all {
            let mut data = grant.data.lock();
            if data.as_ref().is_some_and(|end| !end.is_connected()) {
                *data = None;
            }
            let is_idle = data.is_none() && grant.idle_ns(now) > IDLE_NS;
            drop(data);
            let is_idle = is_idle && grant.window(None).is_none();
            if is_idle {
                self.close(&key);
            }
        }
    }
}

//! Rights to tables: made by a proof, named by a secret number, revocable.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use longarm::{BoundWindow, Connection, RemoteKey};
use longarm_rpc::Status;
use parking_lot::Mutex;

use crate::clock::now_ns;
use crate::proof::Nonce;
use crate::protocol::GrantKey;
use crate::server::random::fill_random;
use crate::server::separate::{SeparateMemory, SeparateRight};
use crate::server::served::ServedTable;

/// Grants at a time.
const MOST_GRANTS: usize = 1 << 16;
/// Challenges that wait for their answer.
const MOST_CHALLENGES: usize = 1024;
/// A challenge that is not answered by then is forgotten.
const CHALLENGE_NS: u64 = 10_000_000_000;
/// A grant without a connection that nobody uses for so long is forgotten. So is a revoked one.
const IDLE_NS: u64 = 600_000_000_000;

/// A client's end of the connection for its READs, and the window that the connection opens. The window goes first.
pub(crate) struct DataEnd {
    pub(crate) window: BoundWindow<'static>,
    pub(crate) connection: Connection,
    pub(crate) attempt: u64,
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
        end.map(|end| (end.window.key(), end.connection.peer_addr()))
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
    by_key: Mutex<HashMap<GrantKey, Arc<TableGrant>>>,
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

    /// Drops connections that have ended, and forgets rights that nobody uses.
    pub(crate) fn keep_house(&self) {
        let all: Vec<(GrantKey, Arc<TableGrant>)> =
            self.by_key.lock().iter().map(|(key, grant)| (*key, Arc::clone(grant))).collect();
        let now = now_ns();
        for (key, grant) in all {
            let mut data = grant.data.lock();
            if data.as_ref().is_some_and(|end| !end.connection.is_connected()) {
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

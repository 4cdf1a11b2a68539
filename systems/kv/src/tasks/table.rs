//! A table, as tasks use it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::client::{GetWay, KvOptions, KvStats, LATER, Repeat, TimeToLive, check_put_way, is_long, scanned_keys};
use crate::envelope::KvVersion;
use crate::error::KvError;
use crate::protocol::*;
use crate::server::TableFigures;
use crate::tasks::core::TaskCore;
use crate::tasks::pause::pause;

/// PUTs of a multi-put whose futures exist at a time.
const TOGETHER: usize = 256;

/// A table on a server, for asynchronous programs. A clone names the same one, and any number of tasks share its connections.
///
/// All operations are futures, on any runtime: threads of Longarm's own wake the tasks. A GET on one host is ready at its first
/// poll. Each operation ends within [`KvOptions::timeout`], as those of [`KvTable`](crate::KvTable), and has the same errors.
///
/// No future blocks its thread: threads of Longarm's own look names up, and long scans and multi-gets let other tasks run.
///
/// A future may be dropped at any time, and the table remains usable. A change whose future was dropped may have been executed or
/// not; a PUT by the client alone ([`PutWay::OneSided`](crate::PutWay::OneSided)) leaves no lock. The server keeps a long value that was sent in part for a minute, and four of them for one client: further long values
/// wait for that minute.
///
/// ```no_run
/// use longarm_kv::{AsyncKvTable, KvOptions};
///
/// # async fn example() -> Result<(), longarm_kv::KvError> {
/// let table = AsyncKvTable::open("host:7480", "sessions", KvOptions::default()).await?;
/// table.put(b"alice", b"tuesday").await?;
/// let value = table.get(b"alice").await?.expect("it was put");
/// assert_eq!(value.bytes, b"tuesday");
/// let values = table.multi_get(&["alice", "bob"]).await?;        // several at a time
/// assert!(values[1].is_none());
/// table.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncKvTable {
    pub(super) core: Arc<TaskCore>,
}

impl AsyncKvTable {
    /// Connects to the server at an address, `host:port`, and opens a table.
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn open(address: &str, table: &str, options: KvOptions) -> Result<AsyncKvTable, KvError> {
        let table = AsyncKvTable { core: Arc::new(TaskCore::new(address, table, options)?) };
        let until = table.core.deadline();
        let is_writable = table.core.open(until).await?.writable;
        check_put_way(&table.core.options, is_writable)?;
        if table.core.options.get != GetWay::Rpc {
            table.core.reader(None, until).await?;
        }
        Ok(table)
    }

    /// The client's number at the server: [`KvTable::revoke`](crate::KvTable::revoke) takes it.
    pub fn client(&self) -> Option<u64> {
        self.core.opened().map(|opened| opened.client)
    }

    /// Its figures.
    pub fn stats(&self) -> KvStats {
        let state = self.core.state.lock();
        let reads = state.reader.as_ref().map_or(0, |reader| reader.table.stats().reads);
        KvStats { reads: state.stats.reads + reads, ..state.stats }
    }

    /// Gives the right to the table back, for all clones. An operation afterwards opens it again. Without this, the server
    /// forgets the right some minutes after the last clone was dropped.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn close(&self) -> Result<(), KvError> {
        let Some(opened) = self.core.forget() else { return Ok(()) };
        let mut request = Vec::new();
        encode(&GrantRequest { grant: opened.grant }, &[], &mut request);
        self.core.exchange(CLOSE, request, self.core.deadline()).await?;
        Ok(())
    }

    /// Gives a key a value that stays.
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn put(&self, key: &[u8], value: &[u8]) -> Result<KvVersion, KvError> {
        self.put_with(key, value, PutIf::Always, PutExpiry::Never).await
    }

    /// Gives a value to a key that is absent.
    ///
    /// # Errors
    /// [`KvError::Conflict`] if it is present.
    pub async fn insert(&self, key: &[u8], value: &[u8]) -> Result<KvVersion, KvError> {
        self.put_with(key, value, PutIf::Absent, PutExpiry::Never).await
    }

    /// Gives a key a value that stays, if it still has this version.
    ///
    /// # Errors
    /// [`KvError::Conflict`] if it has another one, or is absent.
    pub async fn compare_and_put(&self, key: &[u8], value: &[u8], version: KvVersion) -> Result<KvVersion, KvError> {
        self.put_with(key, value, PutIf::Version(version), PutExpiry::Never).await
    }

    /// Gives a key a value, under a condition, with an expiry.
    ///
    /// # Errors
    /// [`KvError::Conflict`] if the condition is not met, [`KvError::Full`] if the memory is full.
    pub async fn put_with(
        &self,
        key: &[u8],
        value: &[u8],
        condition: PutIf,
        expiry: PutExpiry,
    ) -> Result<KvVersion, KvError> {
        if let Some(done) = self.put_alone(key, value, condition, expiry).await {
            return done;
        }
        let until = self.core.deadline();
        let request = |grant, out: &mut Vec<u8>| {
            encode(&PutRequest { grant, condition, expiry, key_bytes: key.len() as u32 }, &[key, value], out);
        };
        loop {
            let reply = if is_long((key, value)) {
                self.put_long(key, value, (condition, expiry), until).await?
            } else {
                self.core.call(PUT, Repeat::IfNotExecuted, until, request).await?
            };
            match reply {
                PutReply::Stored { version, .. } => {
                    self.core.learn_durable(version.stamp());
                    return Ok(version);
                }
                PutReply::Conflict(present) => return Err(KvError::Conflict(present)),
                PutReply::Later => self.later(until).await?,
            }
        }
    }

    /// Gives keys values that stay, several at a time.
    ///
    /// # Errors
    /// The first one. Then some keys may have their new value, and others not.
    pub async fn multi_put<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<(), KvError> {
        for some in pairs.chunks(TOGETHER) {
            let puts: Vec<_> = some.iter().map(|(key, value)| self.put(key.as_ref(), value.as_ref())).collect();
            try_join_all(puts).await?;
        }
        Ok(())
    }

    /// Waits until freed memory is free.
    async fn later(&self, until: Instant) -> Result<(), KvError> {
        let full = || KvError::Full("memory that was freed is not yet free".into());
        if pause(LATER, until).await { Ok(()) } else { Err(full()) }
    }

    /// Deletes a key. Returns false if it was absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn delete(&self, key: &[u8]) -> Result<bool, KvError> {
        self.delete_with(key, None).await
    }

    /// Deletes a key that still has this version. Returns false if it was absent.
    ///
    /// # Errors
    /// [`KvError::Conflict`] if it has another one.
    pub async fn compare_and_delete(&self, key: &[u8], version: KvVersion) -> Result<bool, KvError> {
        self.delete_with(key, Some(version)).await
    }

    async fn delete_with(&self, key: &[u8], version: Option<KvVersion>) -> Result<bool, KvError> {
        let request = |grant, out: &mut Vec<u8>| encode(&DeleteRequest { grant, version }, &[key], out);
        match self.core.call(DELETE, Repeat::IfNotExecuted, self.core.deadline(), request).await? {
            DeleteReply::Deleted => Ok(true),
            DeleteReply::Absent => Ok(false),
            DeleteReply::Conflict(present) => Err(KvError::Conflict(Some(present))),
        }
    }

    /// Adds to a counter, and returns its sum. It is kept as decimal digits; an absent key counts from zero.
    ///
    /// # Errors
    /// [`KvError::WrongType`] if the value is no number, or the sum has more than 64 bits.
    pub async fn add(&self, key: &[u8], add: i64) -> Result<i64, KvError> {
        let until = self.core.deadline();
        let request = |grant, out: &mut Vec<u8>| encode(&AddRequest { grant, add }, &[key], out);
        loop {
            let reply: AddReply = self.core.call(ADD, Repeat::IfNotExecuted, until, request).await?;
            match reply.value {
                Some(value) => return Ok(value),
                None => self.later(until).await?,
            }
        }
    }

    /// Lets a key expire after some time. Returns false if it is absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn expire(&self, key: &[u8], after: Duration) -> Result<bool, KvError> {
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Ok(self.expiry(key, Some(PutExpiry::AfterNs(after_ns))).await?.is_some())
    }

    /// Lets a key stay. Returns false if it is absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn persist(&self, key: &[u8]) -> Result<bool, KvError> {
        Ok(self.expiry(key, Some(PutExpiry::Never)).await?.is_some())
    }

    /// The time that a key has left; `None` if it is absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn time_to_live(&self, key: &[u8]) -> Result<Option<TimeToLive>, KvError> {
        self.expiry(key, None).await
    }

    async fn expiry(&self, key: &[u8], change: Option<PutExpiry>) -> Result<Option<TimeToLive>, KvError> {
        let until = self.core.deadline();
        let repeat = if change.is_none() { Repeat::Always } else { Repeat::IfNotExecuted };
        let request = |grant, out: &mut Vec<u8>| encode(&ExpireRequest { grant, expiry: change }, &[key], out);
        loop {
            let ExpireReply { server_ns, outcome } = self.core.call(EXPIRE, repeat, until, request).await?;
            match outcome {
                ExpireOutcome::Absent => return Ok(None),
                ExpireOutcome::Expires(0) => return Ok(Some(TimeToLive::Forever)),
                ExpireOutcome::Expires(expires_ns) => {
                    let left_ns = expires_ns.saturating_sub(server_ns);
                    return Ok(Some(TimeToLive::Left(Duration::from_nanos(left_ns))));
                }
                ExpireOutcome::Later => self.later(until).await?,
            }
        }
    }

    /// Some keys with a prefix, and the cursor for the next ones: see [`KvTable::scan`](crate::KvTable::scan).
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn scan(&self, cursor: u64, count: u32, prefix: &[u8]) -> Result<(Vec<Vec<u8>>, u64), KvError> {
        let request = |grant, out: &mut Vec<u8>| encode(&ScanRequest { grant, cursor, count }, &[prefix], out);
        let reply = self.core.call_bytes(SCAN, Repeat::Always, self.core.deadline(), request).await?;
        scanned_keys(&reply)
    }

    /// The figures of the table and its server.
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn figures(&self) -> Result<TableFigures, KvError> {
        let request = |grant, out: &mut Vec<u8>| encode(&GrantRequest { grant }, &[], out);
        self.core.call(FIGURES, Repeat::Always, self.core.deadline(), request).await
    }

    /// The clients of the table.
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn clients(&self) -> Result<Vec<TableClient>, KvError> {
        let request = |grant, out: &mut Vec<u8>| encode(&GrantRequest { grant }, &[], out);
        let reply: ClientsReply = self.core.call(CLIENTS, Repeat::Always, self.core.deadline(), request).await?;
        Ok(reply.clients)
    }

    /// Takes the right to the table from a client, or from all others: see [`KvTable::revoke`](crate::KvTable::revoke).
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn revoke(&self, client: Option<u64>) -> Result<u64, KvError> {
        let request = |grant, out: &mut Vec<u8>| encode(&RevokeRequest { grant, client }, &[], out);
        let reply: RevokeReply = self.core.call(REVOKE, Repeat::Always, self.core.deadline(), request).await?;
        Ok(reply.revoked)
    }
}

impl std::fmt::Debug for AsyncKvTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AsyncKvTable({}, {:?})", self.core.address, self.stats())
    }
}

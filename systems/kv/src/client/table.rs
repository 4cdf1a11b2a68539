//! A table, as a program uses it.

use std::sync::Arc;
use std::time::Duration;

use crate::client::alone_steps::check_put_way;
use crate::client::choice::WayChoices;
use crate::client::network::DeviceNetwork;
use crate::client::options::{GetWay, KvOptions, PutWay};
use crate::client::remote_reader::RemoteReader;
use crate::client::report::ReadReport;
use crate::client::session::{Repeat, TableSession};
use crate::envelope::KvVersion;
use crate::error::KvError;
use crate::protocol::*;
use crate::server::TableFigures;
use crate::surroundings::{instant, piece_bytes, sleep};

/// The pause before a change is sent again for which the server's memory was not yet free.
pub(crate) const LATER: Duration = Duration::from_millis(2);

/// The time that a key has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeToLive {
    /// It stays.
    Forever,
    /// It expires so much later.
    Left(Duration),
}

/// Figures of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvStats {
    /// GETs by READs alone.
    pub one_sided_gets: u64,
    /// READs for them.
    pub reads: u64,
    /// GETs by calls to the server's device.
    pub device_gets: u64,
    /// GETs by request, those included for values that may have expired.
    pub rpc_gets: u64,
    /// Ranges by READs.
    pub one_sided_ranges: u64,
    /// Ranges by request.
    pub rpc_ranges: u64,
    /// PUTs by compare-and-swap and WRITEs alone.
    pub one_sided_puts: u64,
    /// Connections for READs that were made.
    pub attached: u64,
}

/// A table on a server. It connects when it has to, and again after the server was away.
///
/// Each operation waits for its end, for [`KvOptions::timeout`] at most. A program with several threads gives each a `KvTable` of
/// its own.
///
/// ```no_run
/// use longarm_kv::{KvOptions, KvTable};
///
/// # fn main() -> Result<(), longarm_kv::KvError> {
/// let mut table = KvTable::open("host:7480", "sessions", KvOptions::default())?;
/// table.put(b"alice", b"tuesday")?;
/// let value = table.get(b"alice")?.expect("it was put");         // by READs: the server's processor does nothing
/// assert_eq!(value.bytes, b"tuesday");
/// # Ok(())
/// # }
/// ```
pub struct KvTable {
    pub(super) session: TableSession,
    pub(super) reader: Option<Box<dyn RemoteReader>>,
    pub(super) report: ReadReport,
    pub(super) reply: Vec<u8>,
    pub(super) stats: KvStats,
    pub(super) choices: WayChoices,
}

impl KvTable {
    /// Connects to the server at an address, `host:port`, and opens a table.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn open(address: &str, table: &str, options: KvOptions) -> Result<KvTable, KvError> {
        KvTable::open_session(TableSession::over(Arc::new(DeviceNetwork), address, table, options))
    }

    /// The same. If another server may have the answer, a failure is told at once.
    pub(super) fn open_impatient(address: &str, table: &str, options: KvOptions) -> Result<KvTable, KvError> {
        let mut session = TableSession::over(Arc::new(DeviceNetwork), address, table, options);
        session.is_impatient = true;
        KvTable::open_session(session)
    }

    pub(crate) fn open_session(session: TableSession) -> Result<KvTable, KvError> {
        let mut table = KvTable {
            session,
            reader: None,
            report: ReadReport::new(),
            reply: Vec::new(),
            stats: KvStats::default(),
            choices: WayChoices::new(),
        };
        let until = table.session.deadline();
        table.session.open(until)?;
        check_put_way(&table.session.options, table.is_writable())?;
        if table.session.options.get != GetWay::Rpc {
            table.attached(until)?;
        }
        Ok(table)
    }

    /// The client's number at the server: [`revoke`](KvTable::revoke) takes it.
    pub fn client(&self) -> Option<u64> {
        self.session.opened().map(|opened| opened.client)
    }

    /// Its figures.
    pub fn stats(&self) -> KvStats {
        let reads = self.reader.as_ref().map_or(0, |reader| reader.stats().reads);
        KvStats { reads: self.stats.reads + reads, ..self.stats }
    }

    /// Gives a key a value that stays.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<KvVersion, KvError> {
        self.put_with(key, value, PutIf::Always, PutExpiry::Never)
    }

    /// Gives a value to a key that is absent.
    ///
    /// # Errors
    /// [`KvError::Conflict`] if it is present.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<KvVersion, KvError> {
        self.put_with(key, value, PutIf::Absent, PutExpiry::Never)
    }

    /// Gives a key a value that stays, if it still has this version.
    ///
    /// # Errors
    /// [`KvError::Conflict`] if it has another one, or is absent.
    pub fn compare_and_put(&mut self, key: &[u8], value: &[u8], version: KvVersion) -> Result<KvVersion, KvError> {
        self.put_with(key, value, PutIf::Version(version), PutExpiry::Never)
    }

    /// Gives a key a value, under a condition, with an expiry.
    ///
    /// # Errors
    /// [`KvError::Conflict`] if the condition is not met, [`KvError::Full`] if the memory is full.
    pub fn put_with(
        &mut self,
        key: &[u8],
        value: &[u8],
        condition: PutIf,
        expiry: PutExpiry,
    ) -> Result<KvVersion, KvError> {
        if let Some(done) = self.put_alone(key, value, condition, expiry) {
            return done;
        }
        let until = self.session.deadline();
        let head = |grant| PutRequest { grant, condition, expiry, key_bytes: key.len() as u32 };
        loop {
            let reply = if is_long((key, value)) {
                self.put_long(key, value, (condition, expiry), until)?
            } else {
                self.session.call(PUT, Repeat::IfNotExecuted, until, |grant, out| {
                    encode(&head(grant), &[key, value], out);
                })?
            };
            match reply {
                PutReply::Stored { version, .. } => {
                    self.session.learn_durable(version.stamp());
                    return Ok(version);
                }
                PutReply::Conflict(present) => return Err(KvError::Conflict(present)),
                PutReply::Later => self.later(until)?,
            }
        }
    }

    /// Gives keys values that stay, several at a time. `pair` tells a key and its value by their number, perhaps more than once.
    ///
    /// # Errors
    /// The first one. Then some keys may have their new value, and others not.
    pub fn multi_put<'a>(
        &mut self,
        count: usize,
        mut pair: impl FnMut(usize) -> (&'a [u8], &'a [u8]),
    ) -> Result<(), KvError> {
        if self.session.options.put == PutWay::OneSided {
            return (0..count).map(&mut pair).try_for_each(|(key, value)| self.put(key, value).map(drop));
        }
        let (until, mut alone) = (self.session.deadline(), Vec::new());
        let short: Vec<usize> = (0..count).filter(|number| !is_long(pair(*number))).collect();
        alone.extend((0..count).filter(|number| is_long(pair(*number))));
        let mut request = |at: usize, grant, out: &mut Vec<u8>| {
            let (key, value) = pair(short[at]);
            let (condition, expiry) = (PutIf::Always, PutExpiry::Never);
            encode(&PutRequest { grant, condition, expiry, key_bytes: key.len() as u32 }, &[key, value], out);
        };
        let mut answer = |at: usize, reply: &[u8]| {
            if !matches!(decode(reply)?.0, PutReply::Stored { .. }) {
                alone.push(short[at]);
            }
            Ok(())
        };
        self.session.call_many(PUT, short.len(), until, &mut request, &mut answer)?;
        for number in alone {
            let (key, value) = pair(number);
            self.put(key, value)?;
        }
        Ok(())
    }

    /// Waits until freed memory is free.
    fn later(&self, until: std::time::Instant) -> Result<(), KvError> {
        if instant() + LATER >= until {
            return Err(KvError::Full("memory that was freed is not yet free".into()));
        }
        sleep(LATER);
        Ok(())
    }

    /// Deletes a key. Returns false if it was absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, KvError> {
        self.delete_with(key, None)
    }

    /// Deletes a key that still has this version. Returns false if it was absent.
    ///
    /// # Errors
    /// [`KvError::Conflict`] if it has another one.
    pub fn compare_and_delete(&mut self, key: &[u8], version: KvVersion) -> Result<bool, KvError> {
        self.delete_with(key, Some(version))
    }

    fn delete_with(&mut self, key: &[u8], version: Option<KvVersion>) -> Result<bool, KvError> {
        let until = self.session.deadline();
        let reply = self.session.call(DELETE, Repeat::IfNotExecuted, until, |grant, out| {
            encode(&DeleteRequest { grant, version }, &[key], out);
        })?;
        match reply {
            DeleteReply::Deleted => Ok(true),
            DeleteReply::Absent => Ok(false),
            DeleteReply::Conflict(present) => Err(KvError::Conflict(Some(present))),
        }
    }

    /// Adds to a counter, and returns its sum. It is kept as decimal digits; an absent key counts from zero.
    ///
    /// # Errors
    /// [`KvError::WrongType`] if the value is no number, or the sum has more than 64 bits.
    pub fn add(&mut self, key: &[u8], add: i64) -> Result<i64, KvError> {
        let until = self.session.deadline();
        loop {
            let reply: AddReply = self.session.call(ADD, Repeat::IfNotExecuted, until, |grant, out| {
                encode(&AddRequest { grant, add }, &[key], out);
            })?;
            match reply.value {
                Some(value) => return Ok(value),
                None => self.later(until)?,
            }
        }
    }

    /// Lets a key expire after some time. Returns false if it is absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn expire(&mut self, key: &[u8], after: Duration) -> Result<bool, KvError> {
        let after_ns = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Ok(self.expiry(key, Some(PutExpiry::AfterNs(after_ns)))?.is_some())
    }

    /// Lets a key stay. Returns false if it is absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn persist(&mut self, key: &[u8]) -> Result<bool, KvError> {
        Ok(self.expiry(key, Some(PutExpiry::Never))?.is_some())
    }

    /// The time that a key has left; `None` if it is absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn time_to_live(&mut self, key: &[u8]) -> Result<Option<TimeToLive>, KvError> {
        self.expiry(key, None)
    }

    fn expiry(&mut self, key: &[u8], change: Option<PutExpiry>) -> Result<Option<TimeToLive>, KvError> {
        let until = self.session.deadline();
        let repeat = if change.is_none() { Repeat::Always } else { Repeat::IfNotExecuted };
        loop {
            let ExpireReply { server_ns, outcome } = self.session.call(EXPIRE, repeat, until, |grant, out| {
                encode(&ExpireRequest { grant, expiry: change }, &[key], out);
            })?;
            match outcome {
                ExpireOutcome::Absent => return Ok(None),
                ExpireOutcome::Expires(0) => return Ok(Some(TimeToLive::Forever)),
                ExpireOutcome::Expires(expires_ns) => {
                    return Ok(Some(TimeToLive::Left(TableSession::until(server_ns, expires_ns))));
                }
                ExpireOutcome::Later => self.later(until)?,
            }
        }
    }

    /// Some keys with a prefix, and the cursor for the next ones. A scan begins and ends with cursor zero; `count` is a hint.
    ///
    /// A key that is there from the beginning to the end of a scan is told exactly once, whatever else changes. Keys that come or
    /// go meanwhile may be told or not. The order is that of a hash.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn scan(&mut self, cursor: u64, count: u32, prefix: &[u8]) -> Result<(Vec<Vec<u8>>, u64), KvError> {
        let (until, mut reply) = (self.session.deadline(), std::mem::take(&mut self.reply));
        let request = |grant, out: &mut Vec<u8>| encode(&ScanRequest { grant, cursor, count }, &[prefix], out);
        let done = self.session.call_into(SCAN, Repeat::Always, until, request, &mut reply);
        let scanned = done.and_then(|()| scanned_keys(&reply));
        self.reply = reply;
        scanned
    }

    /// The figures of the table and its server.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn figures(&mut self) -> Result<TableFigures, KvError> {
        let until = self.session.deadline();
        self.session.call(FIGURES, Repeat::Always, until, |grant, out| encode(&GrantRequest { grant }, &[], out))
    }

    /// The clients of the table.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn clients(&mut self) -> Result<Vec<TableClient>, KvError> {
        let until = self.session.deadline();
        let reply: ClientsReply = self
            .session
            .call(CLIENTS, Repeat::Always, until, |grant, out| encode(&GrantRequest { grant }, &[], out))?;
        Ok(reply.clients)
    }

    /// Takes the right to the table from a client, or from all others. Its next READ or request fails with
    /// [`KvError::Revoked`]. Returns the number of clients that had the right.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn revoke(&mut self, client: Option<u64>) -> Result<u64, KvError> {
        let until = self.session.deadline();
        let reply: RevokeReply = self.session.call(REVOKE, Repeat::Always, until, |grant, out| {
            encode(&RevokeRequest { grant, client }, &[], out);
        })?;
        Ok(reply.revoked)
    }
}

/// The keys in the answer to a scan, and the cursor for the next ones.
pub(crate) fn scanned_keys(reply: &[u8]) -> Result<(Vec<Vec<u8>>, u64), KvError> {
    let (ScanReply { next }, mut rest) = decode(reply)?;
    let mut keys = Vec::new();
    while let Some((key, more)) = split_framed(rest) {
        keys.push(key.to_vec());
        rest = more;
    }
    Ok((keys, next))
}

/// True if a value has to travel in pieces: key and value have more than one.
pub(crate) fn is_long((key, value): (&[u8], &[u8])) -> bool {
    value.len() + key.len() > piece_bytes()
}

impl std::fmt::Debug for KvTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KvTable({}, {:?})", self.session.address, self.stats())
    }
}

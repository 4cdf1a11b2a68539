//! GETs: by READs, with the server's word where a value may have expired, and by requests.

use std::time::Instant;

use futures_util::future::try_join_all;
use remote::{FoundObject, LookupError, ReadError};

use crate::client::{GetWay, KvValue, Repeat, judge};
use crate::clock::{ClockReading, ExpiryVerdict, now_ns};
use crate::envelope::{Envelope, KvVersion};
use crate::error::KvError;
use crate::protocol::{FoundValue, GET, GetReply, GetRequest, decode, encode};
use crate::server::tag_of;
use crate::tasks::table::AsyncKvTable;

/// Attempts to fetch a long value in pieces.
const ATTEMPTS: usize = 8;
/// Keys of a multi-get whose futures exist at a time.
const TOGETHER: usize = 1024;

/// The outcome of a lookup by READs.
enum TaskAnswer {
    Value(KvValue),
    Absent,
    /// It may have expired, or may not be on disk yet, though the server promises that what is seen is there.
    Doubtful,
    /// The table has a value without an envelope.
    Broken,
}

impl AsyncKvTable {
    /// The value of a key; `None` if it is absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub async fn get(&self, key: &[u8]) -> Result<Option<KvValue>, KvError> {
        match self.core.options.get {
            GetWay::Rpc => self.ask(key).await,
            _ => self.read(key).await,
        }
    }

    /// The values of keys, in their order, several looked up at a time.
    ///
    /// # Errors
    /// The first one.
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<KvValue>>, KvError> {
        let mut values = Vec::with_capacity(keys.len());
        for some in keys.chunks(TOGETHER) {
            let gets: Vec<_> = some.iter().map(|key| self.get(key.as_ref())).collect();
            values.extend(try_join_all(gets).await?);
        }
        Ok(values)
    }

    /// Looks a key up by READs. A connection that fails is made again.
    async fn read(&self, key: &[u8]) -> Result<Option<KvValue>, KvError> {
        // The clock is asked only if something has to be waited for.
        let (mut until, mut failed) = (None, None);
        loop {
            let present = if failed.is_none() { self.core.state.lock().reader.clone() } else { None };
            let reader = match present {
                Some(reader) => reader,
                None => {
                    let until = *until.get_or_insert_with(|| self.core.deadline());
                    self.core.reader(failed.as_ref(), until).await?
                }
            };
            let (clock, durable) = (self.core.clock(), self.core.durable());
            let found = match reader.get(key, |found| answer_of(clock, durable, found)).await {
                // Busy: where clients PUT alone, one of them may have died with a lock. The server knows.
                Ok(TaskAnswer::Doubtful) | Err(ReadError::Lookup(LookupError::Busy)) => self.ask(key).await?,
                Ok(TaskAnswer::Value(value)) => Some(value),
                Ok(TaskAnswer::Absent) => None,
                Ok(TaskAnswer::Broken) => {
                    return Err(KvError::Invalid("the table has a value without an envelope".into()));
                }
                Err(ReadError::Link(error)) if until.is_some_and(|until| Instant::now() >= until) => {
                    return Err(KvError::Read(ReadError::Link(error)));
                }
                Err(ReadError::Link(_)) => {
                    failed = Some(reader);
                    continue;
                }
                Err(error) => return Err(KvError::Read(error)),
            };
            self.count(key);
            return Ok(found);
        }
    }

    /// GETs a key by request.
    async fn ask(&self, key: &[u8]) -> Result<Option<KvValue>, KvError> {
        self.core.state.lock().stats.rpc_gets += 1;
        let until = self.core.deadline();
        for _ in 0..ATTEMPTS {
            if let Some(found) = self.ask_once(key, until).await? {
                return Ok(found);
            }
        }
        Err(KvError::Changing)
    }

    /// GETs a key. The outer `None`: the value changed meanwhile.
    async fn ask_once(&self, key: &[u8], until: Instant) -> Result<Option<Option<KvValue>>, KvError> {
        let Some((first, mut bytes)) = self.ask_part(key, (0, None), until).await? else { return Ok(Some(None)) };
        let version = first.version;
        while (bytes.len() as u64) < first.value_bytes {
            match self.ask_part(key, (bytes.len() as u64, Some(version)), until).await? {
                Some((part, piece)) if part.version == version && !piece.is_empty() => bytes.extend_from_slice(&piece),
                _ => return Ok(None),
            }
        }
        Ok(Some(Some(KvValue { bytes, version })))
    }

    async fn ask_part(
        &self,
        key: &[u8],
        (from, version): (u64, Option<KvVersion>),
        until: Instant,
    ) -> Result<Option<(FoundValue, Vec<u8>)>, KvError> {
        let asked_ns = now_ns();
        let request = |grant, out: &mut Vec<u8>| encode(&GetRequest { grant, from, version }, &[key], out);
        let reply = match self.core.call_bytes(GET, Repeat::Always, until, request).await {
            // The value became shorter than the part of it that has come.
            Err(KvError::Invalid(_)) if from > 0 => return Ok(None),
            other => other?,
        };
        let answered_ns = now_ns();
        let (GetReply { server_ns, durable, found }, bytes) = decode(&reply)?;
        // The server has waited for the disk with its answer.
        self.core.learn_durable(found.map_or(durable, |found| found.version.stamp().max(durable)));
        self.core.learn(ClockReading { asked_ns, server_ns, answered_ns });
        Ok(found.map(|found| (found, bytes.to_vec())))
    }

    /// Counts a GET that the server did not see, and tells it from time to time.
    fn count(&self, key: &[u8]) {
        let mut state = self.core.state.lock();
        state.stats.one_sided_gets += 1;
        let Some(seed) = state.evicting_seed() else { return };
        state.report.count(|| tag_of(seed, key));
        let due = state.report.take_due();
        drop(state);
        if let Some((gets, tags)) = due {
            self.core.send_report(gets, &tags);
        }
    }
}

/// `durable`: the last change that is on disk, if readers have to know.
fn answer_of(clock: Option<ClockReading>, durable: Option<u64>, found: Option<FoundObject<'_>>) -> TaskAnswer {
    let Some(found) = found else {
        // A key may be absent by a change that is not on disk yet.
        return if durable.is_some() { TaskAnswer::Doubtful } else { TaskAnswer::Absent };
    };
    let Some((envelope, value)) = Envelope::split(found.value) else { return TaskAnswer::Broken };
    if durable.is_some_and(|durable| envelope.stamp > durable) {
        return TaskAnswer::Doubtful;
    }
    match judge(clock, envelope) {
        ExpiryVerdict::Live => {
            let version = KvVersion::new(envelope.stamp, found.header);
            TaskAnswer::Value(KvValue { bytes: value.to_vec(), version })
        }
        ExpiryVerdict::Expired => TaskAnswer::Absent,
        ExpiryVerdict::Unknown => TaskAnswer::Doubtful,
    }
}

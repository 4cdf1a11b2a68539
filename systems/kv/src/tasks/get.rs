//! GETs: by READs, with the server's word where a value may have expired, and by requests.

use std::time::Instant;

use remote::{LookupError, ReadError};

use crate::client::{Answer, GetWay, KvValue, LookedUp, Repeat};
use crate::clock::{ClockReading, now_ns};
use crate::envelope::KvVersion;
use crate::error::KvError;
use crate::protocol::{FoundValue, GET, GetReply, GetRequest, decode, encode};
use crate::server::tag_of;
use crate::tasks::table::AsyncKvTable;

/// Attempts to fetch a long value in pieces.
const ATTEMPTS: usize = 8;

/// An [`Answer`] of its own.
enum TaskAnswer {
    Value(KvValue),
    Absent,
    Doubtful,
    Broken,
}

impl AsyncKvTable {
    /// Looks a key up by READs. A connection that fails is made again.
    pub(super) async fn read(&self, key: &[u8]) -> Result<Option<KvValue>, KvError> {
        // The clock is asked only if something has to be waited for.
        let (mut until, mut failed) = (None, None);
        if self.core.opened().is_some_and(|opened| opened.member.is_some()) {
            // Tasks do not mind terms of members with backups. So they ask.
            return self.ask(key, self.core.deadline()).await;
        }
        loop {
            let present = if failed.is_none() { self.core.state.lock().reader.clone() } else { None };
            let reader = match present {
                Some(reader) => reader,
                None => {
                    let until = *until.get_or_insert_with(|| self.core.deadline());
                    self.core.reader(failed.as_ref(), until).await?
                }
            };
            let (clock, since_ns, durable) = (self.core.clock(), now_ns(), self.core.durable());
            let found = match reader.table.get(key, |found| answer_of((clock, Some(since_ns)), durable, found)).await {
                // Busy: where clients PUT alone, one of them may have died with a lock. The server knows.
                Ok(TaskAnswer::Doubtful) | Err(ReadError::Lookup(LookupError::Busy)) => {
                    self.ask(key, self.core.deadline()).await?
                }
                Ok(TaskAnswer::Value(value)) => Some(value),
                Ok(TaskAnswer::Absent) => None,
                Ok(TaskAnswer::Broken) => return Err(KvError::broken_table()),
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
    pub(super) async fn ask(&self, key: &[u8], until: Instant) -> Result<Option<KvValue>, KvError> {
        self.core.state.lock().stats.rpc_gets += 1;
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
        let (GetReply { server_ns, durable, found, .. }, bytes) = decode(&reply)?;
        // The server has waited for the disk with its answer.
        self.core.learn_durable(found.map_or(durable, |found| found.version.stamp().max(durable)));
        self.core.learn(ClockReading { asked_ns, server_ns, answered_ns });
        Ok(found.map(|found| (found, bytes.to_vec())))
    }

    /// Counts a GET that the server did not see, and tells it from time to time.
    fn count(&self, key: &[u8]) {
        let mut state = self.core.state.lock();
        match self.core.options.get {
            GetWay::Device => state.stats.device_gets += 1,
            _ => state.stats.one_sided_gets += 1,
        }
        let Some(seed) = state.evicting_seed() else { return };
        state.report.count(|| tag_of(seed, key));
        drop(state);
        self.send_due_report();
    }

    /// Sends the report if it is due.
    pub(super) fn send_due_report(&self) {
        let due = self.core.state.lock().report.take_due();
        if let Some((gets, tags)) = due {
            self.core.send_report(gets, &tags);
        }
    }
}

fn answer_of(times: (Option<ClockReading>, Option<u64>), durable: Option<u64>, found: LookedUp<'_>) -> TaskAnswer {
    match Answer::of(times, durable, found) {
        Answer::Value(bytes, version) => TaskAnswer::Value(KvValue { bytes: bytes.to_vec(), version }),
        Answer::Absent => TaskAnswer::Absent,
        Answer::Doubtful => TaskAnswer::Doubtful,
        Answer::Broken => TaskAnswer::Broken,
    }
}

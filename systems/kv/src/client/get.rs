//! GETs: by READs, with the server's word where a value may have expired, and by requests.

use std::time::{Duration, Instant};

use remote::{LookupError, ReadError};

use crate::client::answer::Answer;
use crate::client::choice::{ChoiceKind, Searcher};
use crate::client::options::GetWay;
use crate::client::read_once::ReadFailure;
use crate::client::reader::attach;
use crate::client::remote_reader::RemoteReader;
use crate::client::session::Repeat;
use crate::client::table::KvTable;
use crate::clock::{ClockReading, now_ns};
use crate::envelope::KvVersion;
use crate::error::KvError;
use crate::protocol::{FoundValue, GET, GetReply, GetRequest, REPORT, ReportRequest, decode, encode};
use crate::server::tag_of;
use crate::surroundings::{instant, sleep};

/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(5);
/// Attempts to fetch a long value in pieces.
const ATTEMPTS: usize = 8;

/// Takes the number of a key with its value and version.
pub(super) type EachValue<'a> = &'a mut dyn FnMut(usize, Option<(&[u8], KvVersion)>);

/// A value and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvValue {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The version, for compare-and-swap.
    pub version: KvVersion,
}

impl KvTable {
    /// The value of a key; `None` if it is absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn get(&mut self, key: &[u8]) -> Result<Option<KvValue>, KvError> {
        let mut bytes = Vec::new();
        Ok(self.get_into(key, &mut bytes)?.map(|version| KvValue { bytes, version }))
    }

    /// Copies the value of a key to `value`, and tells its version; `None` if the key is absent.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn get_into(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<KvVersion>, KvError> {
        self.get_with(key, |found| {
            found.map(|(bytes, version)| {
                value.clear();
                value.extend_from_slice(bytes);
                version
            })
        })
    }

    /// GETs a key, and returns the result of `take` for its value and version; `take` gets `None` if the key is absent. The value
    /// is not copied.
    ///
    /// # Errors
    /// See [`KvError`].
    pub fn get_with<T>(
        &mut self,
        key: &[u8],
        take: impl FnOnce(Option<(&[u8], KvVersion)>) -> T,
    ) -> Result<T, KvError> {
        let (mut take, mut taken) = (Some(take), None);
        let mut tell = |found: Option<(&[u8], KvVersion)>| {
            if let Some(take) = take.take() {
                taken = Some(take(found));
            }
        };
        let chosen = self.choose(ChoiceKind::Gets(1));
        if chosen.searcher == Searcher::Client {
            // The short path of most GETs: by READs, if there is a connection and nothing is in the way.
            let _ = self.read_once(&[key], None, &mut |_, answer| match answer {
                Answer::Doubtful | Answer::Broken => {}
                Answer::Absent => tell(None),
                Answer::Value(bytes, version) => tell(Some((bytes, version))),
            });
        }
        if let Some(taken) = taken {
            self.count(&[key]);
            self.learn(chosen);
            return Ok(taken);
        }
        self.get_by(chosen, &[key], &mut |_, found| {
            if let Some(take) = take.take() {
                taken = Some(take(found));
            }
        })?;
        // Without an error the key was told.
        taken.ok_or(KvError::Changing)
    }

    /// GETs keys, several at a time, and calls `each` once for each with its number, in any order.
    ///
    /// # Errors
    /// See [`KvError`]. Keys that were found before have been told.
    pub fn multi_get<K: AsRef<[u8]>>(
        &mut self,
        keys: &[K],
        mut each: impl FnMut(usize, Option<(&[u8], KvVersion)>),
    ) -> Result<(), KvError> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        let chosen = self.choose(ChoiceKind::Gets(keys.len()));
        self.get_by(chosen, &keys, &mut each)
    }

    /// GETs keys by requests, several at a time. Those without an answer, and long values, are asked for one by one.
    pub(super) fn ask_each(&mut self, keys: &[&[u8]], until: Instant, each: EachValue<'_>) -> Result<(), KvError> {
        let mut is_told = vec![false; keys.len()];
        if keys.len() > 1 {
            let mut request = |number: usize, grant, out: &mut Vec<u8>| {
                encode(&GetRequest { grant, from: 0, version: None }, &[keys[number]], out);
            };
            let mut answer = |number: usize, reply: &[u8]| {
                let (GetReply { found, .. }, value) = decode(reply)?;
                if found.is_none_or(|found| found.value_bytes == value.len() as u64) {
                    is_told[number] = true;
                    each(number, found.map(|found| (value, found.version)));
                }
                Ok(())
            };
            // The question is asked again one by one, with reconnection, so the error does not matter.
            let _ = self.session.call_many(GET, keys.len(), until, &mut request, &mut answer);
            self.stats.rpc_gets += is_told.iter().filter(|told| **told).count() as u64;
        }
        let mut left = (0..keys.len()).filter(|number| !is_told[*number]);
        left.try_for_each(|number| self.ask(number, keys[number], until, each))
    }

    /// Looks keys up by READs. A connection that fails is made again.
    pub(super) fn read_each(&mut self, keys: &[&[u8]], each: EachValue<'_>) -> Result<(), KvError> {
        // The clock is asked only if something has to be waited for.
        let (mut until, mut is_told, mut doubtful) = (None, vec![false; keys.len()], Vec::new());
        if self.session.has_backups() {
            self.session.renew_term(self.session.deadline())?;
        }
        loop {
            let left: Vec<usize> = (0..keys.len()).filter(|number| !is_told[*number]).collect();
            let wanted: Vec<&[u8]> = left.iter().map(|number| keys[*number]).collect();
            match self.read_once(&wanted, Some(now_ns()), &mut |at, answer| {
                is_told[left[at]] = true;
                match answer {
                    Answer::Doubtful | Answer::Broken => doubtful.push(left[at]),
                    Answer::Absent => each(left[at], None),
                    Answer::Value(bytes, version) => each(left[at], Some((bytes, version))),
                }
            }) {
                Ok(()) => break,
                // A client that PUTs alone has a lock, and may be gone. The server knows.
                Err(ReadFailure::Read(ReadError::Lookup(LookupError::Busy))) if self.is_writable() => {
                    doubtful.extend((0..keys.len()).filter(|number| !is_told[*number]));
                    break;
                }
                Err(error) => {
                    let until = *until.get_or_insert_with(|| self.session.deadline());
                    self.recover(error, until)?;
                }
            }
        }
        for number in doubtful {
            let until = self.session.deadline();
            self.ask(number, keys[number], until, each)?;
        }
        self.count(keys);
        Ok(())
    }

    /// Makes what a failed READ needs.
    pub(super) fn recover(&mut self, failure: ReadFailure, until: Instant) -> Result<(), KvError> {
        match failure {
            ReadFailure::NoReader | ReadFailure::Read(ReadError::Link(_)) => {}
            ReadFailure::Read(error) => return Err(KvError::Read(error)),
            ReadFailure::Broken => return Err(KvError::broken_table()),
        }
        loop {
            self.detach();
            // The server says whether we still have the right. One that was started anew gives us another.
            self.session.confirm(until)?;
            match self.attached(until).map(|_| ()) {
                Err(KvError::NotAttached(..)) if !self.session.is_impatient && instant() + PAUSE < until => {
                    sleep(PAUSE)
                }
                done => return done,
            }
        }
    }

    /// Drops the connection for READs.
    pub(super) fn detach(&mut self) {
        self.stats.reads += self.reader.take().map_or(0, |reader| reader.stats().reads);
    }

    /// The reader, with a connection that is made if there is none.
    pub(super) fn attached(&mut self, until: Instant) -> Result<&mut dyn RemoteReader, KvError> {
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => {
                self.stats.attached += 1;
                attach(&mut self.session, until)?
            }
        };
        Ok(self.reader.insert(reader).as_mut())
    }

    /// GETs a key by request.
    pub(super) fn ask(
        &mut self,
        number: usize,
        key: &[u8],
        until: Instant,
        each: EachValue<'_>,
    ) -> Result<(), KvError> {
        self.stats.rpc_gets += 1;
        let mut reply = std::mem::take(&mut self.reply);
        let done = (0..ATTEMPTS).find_map(|_| self.ask_once(key, until, &mut reply).transpose());
        let done = match done {
            None => Err(KvError::Changing),
            Some(Err(error)) => Err(error),
            Some(Ok(None)) => {
                each(number, None);
                Ok(())
            }
            Some(Ok(Some((start, version)))) => {
                each(number, Some((&reply[start..], version)));
                Ok(())
            }
        };
        self.reply = reply;
        done
    }

    /// GETs a key: where its value begins in the reply, and its version. The outer `None`: the value changed meanwhile.
    fn ask_once(
        &mut self,
        key: &[u8],
        until: Instant,
        reply: &mut Vec<u8>,
    ) -> Result<Option<Option<(usize, KvVersion)>>, KvError> {
        let Some((start, first)) = self.ask_part(key, (0, None), until, reply)? else { return Ok(Some(None)) };
        let mut piece = Vec::new();
        while ((reply.len() - start) as u64) < first.value_bytes {
            let from = (reply.len() - start) as u64;
            match self.ask_part(key, (from, Some(first.version)), until, &mut piece)? {
                Some((start, part)) if part.version == first.version && piece.len() > start => {
                    reply.extend_from_slice(&piece[start..]);
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(Some((start, first.version))))
    }

    fn ask_part(
        &mut self,
        key: &[u8],
        (from, version): (u64, Option<KvVersion>),
        until: Instant,
        reply: &mut Vec<u8>,
    ) -> Result<Option<(usize, FoundValue)>, KvError> {
        let asked_ns = now_ns();
        let request = |grant, out: &mut Vec<u8>| encode(&GetRequest { grant, from, version }, &[key], out);
        match self.session.call_into(GET, Repeat::Always, until, request, reply) {
            // The value became shorter than what we have of it.
            Err(KvError::Invalid(_)) if from > 0 => return Ok(None),
            other => other?,
        }
        let answered_ns = now_ns();
        let (GetReply { server_ns, durable, epoch, found }, rest) = decode(reply)?;
        // The server has waited for the disk with its answer.
        self.session.learn_durable(found.map_or(durable, |found| found.version.stamp().max(durable)));
        self.session.learn_safe(epoch, durable);
        self.session.learn(ClockReading { asked_ns, server_ns, answered_ns });
        Ok(found.map(|found| (reply.len() - rest.len(), found)))
    }

    /// Counts GETs that the server did not see, and tells it from time to time.
    fn count(&mut self, keys: &[&[u8]]) {
        let gets = match self.session.options.get {
            GetWay::Device => &mut self.stats.device_gets,
            _ => &mut self.stats.one_sided_gets,
        };
        *gets += keys.len() as u64;
        let Some(seed) = self.session.opened().filter(|opened| opened.evicts).map(|opened| opened.tag_seed) else {
            return;
        };
        for key in keys {
            self.report.count(|| tag_of(seed, key));
            self.send_due_report();
        }
    }

    /// Sends the report if it is due.
    pub(super) fn send_due_report(&mut self) {
        if let Some((gets, tags)) = self.report.take_due() {
            self.send_report(gets, &tags);
        }
    }

    /// Sends a report and does not wait for the answer. A server that is busy or away misses it.
    pub(super) fn send_report(&mut self, gets: u64, tags: &[u8]) {
        let Some(grant) = self.session.opened().map(|opened| opened.grant) else { return };
        let mut request = Vec::new();
        encode(&ReportRequest { grant, gets }, &[tags], &mut request);
        let until = self.session.deadline();
        if let Some(rpc) = self.session.rpc() {
            rpc.poll(&mut |_, _| ());
            let _ = rpc.start(REPORT, &request, Some(until));
        }
    }

    /// Tells the server now which keys this client has read, as far as it has not been told.
    pub fn report(&mut self) {
        if !self.report.is_empty() {
            let (gets, tags) = self.report.take();
            self.send_report(gets, &tags);
        }
    }
}

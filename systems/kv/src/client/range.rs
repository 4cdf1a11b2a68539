//! Ranges of ordered tables: by READs, with the server's word where a value may have expired, and by requests.

use std::time::{Duration, Instant};

use remote::KeyRange;

use crate::client::choice::{ChoiceKind, Searcher};
use crate::client::choose::ChosenWay;
use crate::client::get::{ReadFailure, judge};
use crate::client::session::Repeat;
use crate::client::table::KvTable;
use crate::clock::ExpiryVerdict;
use crate::envelope::{Envelope, KvVersion};
use crate::error::KvError;
use crate::protocol::{RANGE, RangeItem, RangeReply, RangeRequest, decode, encode};
use crate::server::{KvLayout, tag_of};

/// A key of a range, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvItem {
    /// The key.
    pub key: Vec<u8>,
    /// The bytes of its value.
    pub value: Vec<u8>,
    /// The version, for compare-and-swap.
    pub version: KvVersion,
}

/// Takes a key of a range with its value and version.
type EachItem<'a> = &'a mut dyn FnMut(&[u8], &[u8], KvVersion);

/// A scan on its way.
struct RangeProgress<'a> {
    /// The part of the range whose keys have not been told.
    rest: KeyRange,
    /// Keys that may still be told.
    left: usize,
    told: usize,
    each: EachItem<'a>,
}

/// An item behind one that the server has to judge.
struct HeldItem {
    item: KvItem,
    is_doubtful: bool,
}

impl KvTable {
    /// At most `limit` keys of a range with their values, in the order of the keys' bytes. Only tables with
    /// [`KvLayout::Tree`] have ranges.
    ///
    /// ```no_run
    /// use longarm_kv::{KeyRange, KvOptions, KvTable};
    ///
    /// # fn main() -> Result<(), longarm_kv::KvError> {
    /// let mut orders = KvTable::open("host:7480", "orders", KvOptions::default())?;
    /// for item in orders.range("2026-11".."2026-12", 100)? {
    ///     println!("{}: {} bytes", String::from_utf8_lossy(&item.key), item.value.len());
    /// }
    /// let first = orders.range(.., 1)?;
    /// let of_alice = orders.range(KeyRange::prefix(b"alice/"), 1000)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// No key comes twice. Up to the limit, each key comes that is there from the beginning to the end. A key that comes or goes
    /// meanwhile may be told or not. Each value was the key's at some time during the call; two may be of two times.
    ///
    /// # Errors
    /// [`KvError::NoOrder`] if the table has another layout; else see [`KvError`]. [`KvOptions::timeout`](crate::KvOptions) is
    /// the time without any progress.
    pub fn range(&mut self, range: impl Into<KeyRange>, limit: usize) -> Result<Vec<KvItem>, KvError> {
        let mut items = Vec::new();
        self.range_each(range, limit, |key, value, version| {
            items.push(KvItem { key: key.to_vec(), value: value.to_vec(), version });
        })?;
        Ok(items)
    }

    /// Calls `each` with at most `limit` keys of a range, their values and versions, in the order of the keys' bytes. Returns the
    /// number of keys. It promises what [`range`](KvTable::range) does.
    ///
    /// # Errors
    /// As [`range`](KvTable::range). Keys that were found before have been told.
    pub fn range_each(
        &mut self,
        range: impl Into<KeyRange>,
        limit: usize,
        mut each: impl FnMut(&[u8], &[u8], KvVersion),
    ) -> Result<usize, KvError> {
        let until = self.session.deadline();
        let layout = &self.session.open(until)?.layout;
        if layout.parse() != Ok(KvLayout::Tree) {
            return Err(KvError::NoOrder(format!("the table's layout, {layout}, has no order, so no ranges")));
        }
        let mut progress = RangeProgress { rest: range.into(), left: limit, told: 0, each: &mut each };
        // A key may be missing by a change that is not on disk yet: then the server has to wait for the disk.
        let chosen = match self.session.durable() {
            Some(_) => ChosenWay::server(ChoiceKind::Range(limit)),
            None => self.choose(ChoiceKind::Range(limit)),
        };
        let scanned = match chosen.searcher {
            Searcher::Client => self.scan_by_reads(&mut progress),
            Searcher::Server => self.scan_by_requests(&mut progress, chosen.patience),
        };
        match scanned {
            Err(KvError::Server(_)) if chosen.patience.is_some() => {
                self.learn(chosen);
                self.scan_by_reads(&mut progress)?;
            }
            Err(error) => return Err(error),
            Ok(()) => self.learn(chosen),
        }
        Ok(progress.told)
    }

    fn scan_by_reads(&mut self, progress: &mut RangeProgress<'_>) -> Result<(), KvError> {
        self.stats.one_sided_ranges += 1;
        while progress.left > 0 && !progress.rest.is_empty() {
            match self.scan_once(progress) {
                // Keys that have expired make room for others.
                Ok(true) => {}
                Ok(false) => break,
                Err(RangeFailure::Error(error)) => return Err(error),
                Err(RangeFailure::Read(failure)) => {
                    let until = self.session.deadline();
                    self.recover(failure, until)?;
                }
            }
        }
        if let Some((gets, tags)) = self.report.take_due() {
            self.send_report(gets, &tags);
        }
        Ok(())
    }

    /// Scans the rest. Returns true if there may be more keys.
    fn scan_once(&mut self, progress: &mut RangeProgress<'_>) -> Result<bool, RangeFailure> {
        let clock = self.session.clock();
        let seed = self.session.opened().filter(|opened| opened.evicts).map(|opened| opened.tag_seed);
        let (reader, report) = (self.reader.as_mut().ok_or(ReadFailure::NoReader)?, &mut self.report);
        let (range, limit) = (progress.rest.clone(), progress.left);
        let (mut seen, mut last, mut held, mut is_broken) = (0, None::<Vec<u8>>, Vec::new(), false);
        let scanned = reader.scan(&range, limit, &mut |key, header, stored| {
            seen += 1;
            let Some((envelope, value)) = Envelope::split(stored) else {
                is_broken = true;
                return;
            };
            let version = KvVersion::new(envelope.stamp, header);
            let verdict = judge(clock, envelope);
            if let Some(seed) = seed {
                report.count(|| tag_of(seed, key));
            }
            if held.is_empty() && verdict != ExpiryVerdict::Unknown {
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
            }
            match verdict {
                ExpiryVerdict::Expired => {}
                ExpiryVerdict::Live if held.is_empty() => progress.tell(key, value, version),
                _ => {
                    let item = KvItem { key: key.to_vec(), value: value.to_vec(), version };
                    held.push(HeldItem { item, is_doubtful: verdict == ExpiryVerdict::Unknown });
                }
            }
        });
        // After a failure the scan goes on from here, and those behind the doubtful one are read again.
        if let Some(last) = last {
            progress.rest = range.behind(&last);
        }
        match scanned {
            None => return Err(RangeFailure::Error(KvError::NoOrder("the table has no order".into()))),
            Some(Err(error)) => return Err(ReadFailure::Read(error).into()),
            Some(Ok(())) if is_broken => return Err(ReadFailure::Broken.into()),
            Some(Ok(())) => {}
        }
        self.tell_held(held, progress).map_err(RangeFailure::Error)?;
        Ok(seen == limit)
    }

    /// Asks the server for the values that may have expired, and tells the others between them.
    fn tell_held(&mut self, held: Vec<HeldItem>, progress: &mut RangeProgress<'_>) -> Result<(), KvError> {
        for HeldItem { item, is_doubtful } in held {
            if is_doubtful {
                self.tell_by_request(&item.key, progress)?;
            } else {
                progress.tell(&item.key, &item.value, item.version);
            }
            progress.rest = progress.rest.behind(&item.key);
        }
        Ok(())
    }

    /// GETs a key of the range by request, and tells it if it is there.
    fn tell_by_request(&mut self, key: &[u8], progress: &mut RangeProgress<'_>) -> Result<(), KvError> {
        let until = self.session.deadline();
        self.ask(0, key, until, &mut |_, found| {
            if let Some((value, version)) = found {
                progress.tell(key, value, version);
            }
        })
    }

    /// Asks for the rest. An answer is waited for no longer than `patience`, if there is one.
    fn scan_by_requests(
        &mut self,
        progress: &mut RangeProgress<'_>,
        patience: Option<Duration>,
    ) -> Result<(), KvError> {
        self.stats.rpc_ranges += 1;
        let mut reply = Vec::new();
        while progress.left > 0 && !progress.rest.is_empty() {
            let until = patience.map_or_else(|| self.session.deadline(), |patience| Instant::now() + patience);
            let limit = progress.left as u64;
            let (first, end) = (progress.rest.first(), progress.rest.end());
            let head = |grant| RangeRequest { grant, limit, first_bytes: first.len() as u32, has_end: end.is_some() };
            let request = |grant, out: &mut Vec<u8>| encode(&head(grant), &[first, end.unwrap_or_default()], out);
            self.session.call_into(RANGE, Repeat::Always, until, request, &mut reply)?;
            let (RangeReply { items, next, .. }, mut bytes): (RangeReply<'_>, _) = decode(&reply)?;
            for _ in 0..items {
                let (item, behind): (RangeItem, _) = decode(bytes)?;
                let parts = behind.split_at_checked(item.key_bytes as usize);
                let parts =
                    parts.and_then(|(key, behind)| Some((key, behind.split_at_checked(item.here_bytes as usize)?)));
                let (key, (value, behind)) = parts.ok_or_else(malformed)?;
                bytes = behind;
                if !progress.rest.contains(key) || progress.left == 0 {
                    return Err(malformed());
                }
                if value.len() as u64 == item.value_bytes {
                    progress.tell(key, value, item.version);
                } else {
                    self.tell_by_request(key, progress)?;
                }
                progress.rest = progress.rest.behind(key);
            }
            match next {
                Some(next) if progress.rest.contains(next) && (items > 0 || next > progress.rest.first()) => {
                    progress.rest = progress.rest.starting_at(next)
                }
                Some(_) => return Err(malformed()),
                None => break,
            }
        }
        Ok(())
    }
}

impl RangeProgress<'_> {
    fn tell(&mut self, key: &[u8], value: &[u8], version: KvVersion) {
        (self.each)(key, value, version);
        self.told += 1;
        self.left -= 1;
    }
}

fn malformed() -> KvError {
    KvError::Invalid("the server's answer is no part of the range".into())
}

/// The reason why a scan did not come to its end.
enum RangeFailure {
    Read(ReadFailure),
    Error(KvError),
}

impl From<ReadFailure> for RangeFailure {
    fn from(failure: ReadFailure) -> RangeFailure {
        RangeFailure::Read(failure)
    }
}

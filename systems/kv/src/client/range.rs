//! Ranges of ordered tables: by READs, with the server's word where a value may have expired, and by requests.

use std::time::Duration;

use remote::KeyRange;

use crate::client::choice::{ChoiceKind, Searcher};
use crate::client::choose::ChosenWay;
use crate::client::range_steps::{HeldItem, KvItem, RangeAnswer, RangeProgress, RangeScan, must_have_order};
use crate::client::read_once::ReadFailure;
use crate::client::session::Repeat;
use crate::client::table::KvTable;
use crate::envelope::KvVersion;
use crate::error::KvError;
use crate::protocol::RANGE;
use crate::server::tag_of;
use crate::surroundings::instant;

/// A range on its way.
type Progress<'a> = RangeProgress<&'a mut dyn FnMut(&[u8], &[u8], KvVersion)>;

impl KvTable {
    /// At most `limit` keys of a range with their values, in the order of the keys' bytes. Only tables with
    /// [`KvLayout::Tree`](crate::KvLayout::Tree) have ranges.
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
        must_have_order(&self.session.open(until)?.layout)?;
        let mut progress: Progress<'_> = RangeProgress::new(range.into(), limit, &mut each);
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
        Ok(progress.told())
    }

    fn scan_by_reads(&mut self, progress: &mut Progress<'_>) -> Result<(), KvError> {
        self.stats.one_sided_ranges += 1;
        while progress.is_open() {
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
    fn scan_once(&mut self, progress: &mut Progress<'_>) -> Result<bool, RangeFailure> {
        let clock = self.session.clock();
        let seed = self.session.opened().filter(|opened| opened.evicts).map(|opened| opened.tag_seed);
        let (reader, report) = (self.reader.as_mut().ok_or(ReadFailure::NoReader)?, &mut self.report);
        let mut scan = RangeScan::of(progress);
        let (range, limit) = scan.wanted();
        let scanned = reader.scan(&range, limit, &mut |key, header, stored| {
            if let Some(seed) = seed {
                report.count(|| tag_of(seed, key));
            }
            scan.take(clock, (key, header, stored), progress);
        });
        scan.end(progress);
        match scanned {
            None => return Err(RangeFailure::Error(KvError::NoOrder("the table has no order".into()))),
            Some(Err(error)) => return Err(ReadFailure::Read(error).into()),
            Some(Ok(())) if scan.is_broken() => return Err(ReadFailure::Broken.into()),
            Some(Ok(())) => {}
        }
        let may_go_on = scan.may_go_on();
        self.tell_held(scan.into_held(), progress).map_err(RangeFailure::Error)?;
        Ok(may_go_on)
    }

    /// Asks the server for the values that may have expired, and tells the others between them.
    fn tell_held(&mut self, held: Vec<HeldItem>, progress: &mut Progress<'_>) -> Result<(), KvError> {
        for HeldItem { item, is_doubtful } in held {
            if is_doubtful {
                self.tell_by_request(&item.key, progress)?;
            } else {
                progress.tell(&item.key, &item.value, item.version);
            }
            progress.pass(&item.key);
        }
        Ok(())
    }

    /// GETs a key of the range by request, and tells it if it is there.
    fn tell_by_request(&mut self, key: &[u8], progress: &mut Progress<'_>) -> Result<(), KvError> {
        let until = self.session.deadline();
        self.ask(0, key, until, &mut |_, found| {
            if let Some((value, version)) = found {
                progress.tell(key, value, version);
            }
        })
    }

    /// Asks for the rest. An answer is waited for no longer than `patience`, if there is one.
    fn scan_by_requests(&mut self, progress: &mut Progress<'_>, patience: Option<Duration>) -> Result<(), KvError> {
        self.stats.rpc_ranges += 1;
        let mut reply = Vec::new();
        while progress.is_open() {
            let until = patience.map_or_else(|| self.session.deadline(), |patience| instant() + patience);
            let request = |grant, out: &mut Vec<u8>| progress.request(grant, out);
            self.session.call_into(RANGE, Repeat::Always, until, request, &mut reply)?;
            let mut answer = RangeAnswer::decode(&reply)?;
            while let Some(key) = answer.advance(progress)? {
                self.tell_by_request(key, progress)?;
                progress.pass(key);
            }
            if !answer.end(progress)? {
                break;
            }
        }
        Ok(())
    }
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

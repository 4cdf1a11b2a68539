//! Ranges of ordered tables: by READs, with the server's word where a value may have expired, and by requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use remote::{KeyRange, ReadError};

use crate::client::{
    ChoiceKind, ChosenWay, HeldItem, KvItem, RangeAnswer, RangeProgress, RangeScan, Repeat, Searcher, must_have_order,
};
use crate::envelope::KvVersion;
use crate::error::KvError;
use crate::protocol::RANGE;
use crate::server::tag_of;
use crate::tasks::reader::TaskReader;
use crate::tasks::table::AsyncKvTable;

impl AsyncKvTable {
    /// At most `limit` keys of a range with their values, in the order of the keys' bytes. Only tables with
    /// [`KvLayout::Tree`](crate::KvLayout::Tree) have ranges. It promises what [`KvTable::range`](crate::KvTable::range) does.
    ///
    /// ```no_run
    /// # async fn example(orders: longarm_kv::AsyncKvTable) -> Result<(), longarm_kv::KvError> {
    /// for item in orders.range("2026-11".."2026-12", 100).await? {
    ///     println!("{}: {} bytes", String::from_utf8_lossy(&item.key), item.value.len());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`KvError::NoOrder`] if the table has another layout; else see [`KvError`]. [`KvOptions::timeout`](crate::KvOptions) is
    /// the time without any progress.
    pub async fn range(&self, range: impl Into<KeyRange>, limit: usize) -> Result<Vec<KvItem>, KvError> {
        let mut items = Vec::new();
        let each = |key: &[u8], value: &[u8], version| {
            items.push(KvItem { key: key.to_vec(), value: value.to_vec(), version });
        };
        self.range_each(range, limit, each).await?;
        Ok(items)
    }

    /// Calls `each` with at most `limit` keys of a range, their values and versions, in the order of the keys' bytes. Returns the
    /// number of keys.
    ///
    /// # Errors
    /// As [`range`](AsyncKvTable::range). Keys that were found before have been told.
    pub async fn range_each(
        &self,
        range: impl Into<KeyRange>,
        limit: usize,
        each: impl FnMut(&[u8], &[u8], KvVersion),
    ) -> Result<usize, KvError> {
        let mut progress = RangeProgress::new(range.into(), limit, each);
        must_have_order(&self.core.open(self.core.deadline()).await?.layout)?;
        // A key may be missing by a change that is not on disk yet: then the server has to wait for the disk.
        let kind = ChoiceKind::Range(limit);
        let chosen = if self.core.durable().is_some() { ChosenWay::server(kind) } else { self.choose(kind) };
        let scanned = match chosen.searcher {
            Searcher::Client => self.scan_by_reads(&mut progress).await,
            Searcher::Server => self.scan_by_requests(&mut progress, chosen.patience).await,
        };
        match scanned {
            Err(KvError::Server(_)) if chosen.patience.is_some() => {
                self.learn(chosen);
                self.scan_by_reads(&mut progress).await?;
            }
            Err(error) => return Err(error),
            Ok(()) => self.learn(chosen),
        }
        Ok(progress.told())
    }

    async fn scan_by_reads(
        &self,
        progress: &mut RangeProgress<impl FnMut(&[u8], &[u8], KvVersion)>,
    ) -> Result<(), KvError> {
        self.core.state.lock().stats.one_sided_ranges += 1;
        let (mut until, mut failed) = (self.core.deadline(), None);
        while progress.is_open() {
            let reader = self.core.reader(failed.as_ref(), until).await?;
            let mut scan = RangeScan::of(progress);
            let scanned = self.scan_once(&reader, &mut scan, progress).await;
            scan.end(progress);
            match scanned {
                Err(ReadError::Link(_)) if Instant::now() < until => {
                    failed = Some(reader);
                    continue;
                }
                Err(error) => return Err(KvError::Read(error)),
                Ok(()) if scan.is_broken() => return Err(KvError::broken_table()),
                Ok(()) => {}
            }
            let may_go_on = scan.may_go_on();
            self.tell_held(scan.into_held(), progress).await?;
            // Keys that have expired make room for others.
            if !may_go_on {
                break;
            }
            (until, failed) = (self.core.deadline(), None);
        }
        self.send_due_report();
        Ok(())
    }

    /// Scans the rest once.
    async fn scan_once(
        &self,
        reader: &Arc<TaskReader>,
        scan: &mut RangeScan,
        progress: &mut RangeProgress<impl FnMut(&[u8], &[u8], KvVersion)>,
    ) -> Result<(), ReadError> {
        let (clock, seed) = (self.core.clock(), self.core.state.lock().evicting_seed());
        let (range, limit) = scan.wanted();
        let each = |key: &[u8], header, stored: &[u8]| {
            if let Some(seed) = seed {
                self.core.state.lock().report.count(|| tag_of(seed, key));
            }
            scan.take(clock, (key, header, stored), progress);
        };
        reader.table.scan(&range, limit, each).await
    }

    /// Asks the server for the values that may have expired, and tells the others between them.
    async fn tell_held(
        &self,
        held: Vec<HeldItem>,
        progress: &mut RangeProgress<impl FnMut(&[u8], &[u8], KvVersion)>,
    ) -> Result<(), KvError> {
        for HeldItem { item, is_doubtful } in held {
            if is_doubtful {
                self.tell_by_request(&item.key, progress).await?;
            } else {
                progress.tell(&item.key, &item.value, item.version);
            }
            progress.pass(&item.key);
        }
        Ok(())
    }

    /// GETs a key of the range by request, and tells it if it is there.
    async fn tell_by_request(
        &self,
        key: &[u8],
        progress: &mut RangeProgress<impl FnMut(&[u8], &[u8], KvVersion)>,
    ) -> Result<(), KvError> {
        if let Some(value) = self.ask(key, self.core.deadline()).await? {
            progress.tell(key, &value.bytes, value.version);
        }
        Ok(())
    }

    /// Asks for the rest. An answer is waited for no longer than `patience`, if there is one.
    async fn scan_by_requests(
        &self,
        progress: &mut RangeProgress<impl FnMut(&[u8], &[u8], KvVersion)>,
        patience: Option<Duration>,
    ) -> Result<(), KvError> {
        self.core.state.lock().stats.rpc_ranges += 1;
        while progress.is_open() {
            let until = patience.map_or_else(|| self.core.deadline(), |patience| Instant::now() + patience);
            let reply = {
                let request = |grant, out: &mut Vec<u8>| progress.request(grant, out);
                self.core.call_bytes(RANGE, Repeat::Always, until, request).await?
            };
            let mut answer = RangeAnswer::decode(&reply)?;
            while let Some(key) = answer.advance(progress)? {
                self.tell_by_request(key, progress).await?;
                progress.pass(key);
            }
            if !answer.end(progress)? {
                break;
            }
        }
        Ok(())
    }
}

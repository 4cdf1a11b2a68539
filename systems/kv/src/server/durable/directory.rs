//! A directory with the log and the snapshots of a server's tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use journal::{Disk, EachRecord, FsDisk, FsyncRule, Journal, JournalError, JournalOptions, SealedReader};

use crate::server::durable::ahead::read_ahead;
use crate::server::durable::record::{delete_head, table_head};
use crate::server::durable::restore::TableRestorer;
use crate::server::durable::snapshots::SnapshotThread;
use crate::server::durable::table_log::TableLog;
use crate::server::durable::{DataError, DataFigures, DataOptions, MemberLife};
use crate::server::served::ServedTable;

const SNAPSHOT: &str = "snapshot-";

/// The name of the snapshot with all changes up to this number.
pub(crate) fn snapshot_name(number: u64) -> String {
    format!("{SNAPSHOT}{number:020}")
}

/// Snapshots of a directory, by number; and files that a crash left half written.
pub(crate) fn snapshots(disk: &dyn Disk) -> Result<(Vec<u64>, Vec<String>), JournalError> {
    let names = disk.list().map_err(|why| JournalError::Io { file: "directory".into(), why: Arc::new(why) })?;
    let digits = names.iter().filter_map(|name| name.strip_prefix(SNAPSHOT));
    let mut whole: Vec<u64> = digits.filter_map(|digits| digits.parse().ok()).collect();
    whole.sort_unstable();
    Ok((whole, names.into_iter().filter(|name| name.ends_with(".tmp")).collect()))
}

/// Removes all snapshots but the one with this number, and files that are half written.
pub(crate) fn tidy(disk: &dyn Disk, keep: u64) -> Result<(), JournalError> {
    let (whole, torn) = snapshots(disk)?;
    let old = whole.into_iter().filter(|number| *number != keep).map(snapshot_name);
    for name in old.chain(torn) {
        disk.remove(&name).map_err(|why| JournalError::Io { file: name, why: Arc::new(why) })?;
    }
    disk.sync_directory().map_err(|why| JournalError::Io { file: "directory".into(), why: Arc::new(why) })
}

/// Counts of the snapshot thread.
#[derive(Debug, Default)]
pub(crate) struct SnapshotCounts {
    pub(crate) done: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) unix_s: AtomicU64,
    pub(crate) bytes: AtomicU64,
}

/// A directory that a server uses.
pub(crate) struct DataDirectory {
    pub(crate) journal: Arc<Journal>,
    disk: Arc<dyn Disk>,
    /// Of a member of a cluster: whose data these are, and the greatest stamp among them.
    pub(crate) life: Option<(MemberLife, u64)>,
    counts: Arc<SnapshotCounts>,
    /// Ends first.
    snapshots: Option<SnapshotThread>,
}

impl DataDirectory {
    /// Fills the tables, which are empty, with what is on disk, and lets them log their changes from now on. `member`: the name of the
    /// server in a cluster with backups.
    pub(crate) fn open(
        options: &DataOptions,
        disk: Option<Arc<dyn Disk>>,
        tables: &[Arc<ServedTable>],
        member: Option<&str>,
    ) -> Result<DataDirectory, DataError> {
        let disk = match disk {
            Some(disk) => disk,
            None => Arc::new(FsDisk::open(&options.path)?),
        };
        let life = MemberLife::begin(&*disk, member, options.fsync == FsyncRule::Always)?;
        let mut restorer = TableRestorer::new(tables);
        let (whole, _) = snapshots(&*disk)?;
        let snapshot = whole.last().copied();
        if let Some(number) = snapshot {
            restore_snapshot(&*disk, number, &mut restorer)?;
        }
        let (from, until) = restorer.bounds;
        let journal_options =
            JournalOptions { fsync: options.fsync, segment_bytes: options.segment_bytes, ..JournalOptions::default() };
        let read = |each: EachRecord<'_>| Journal::open(Arc::clone(&disk), from, journal_options, each);
        let journal = Arc::new(read_ahead(read, |number, bytes| restorer.apply(number, bytes))?);
        if journal.recovered() < until {
            let (words, last) = ("changes behind the last snapshot are missing", journal.recovered());
            return Err(DataError::Content(format!("the log ends at record {last}, the snapshot at {until}: {words}")));
        }
        tidy(&*disk, snapshot.unwrap_or_default())?;
        begin_logging(&journal, tables, &restorer)?;
        let counts = Arc::new(SnapshotCounts::default());
        let thread = SnapshotThread::start(
            Arc::clone(&disk),
            Arc::clone(&journal),
            tables.to_vec(),
            Arc::clone(&counts),
            options.snapshot_bytes,
        );
        let life = life.map(|life| (life, restorer.last_stamp));
        Ok(DataDirectory { journal, disk, life, counts, snapshots: Some(thread?) })
    }

    /// The log of the table with that place among the server's tables, for one that gives stamps itself.
    pub(crate) fn table_log(&self, place: usize) -> TableLog {
        // `open` has refused more tables.
        TableLog { journal: Arc::clone(&self.journal), id: place as u16 }
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// True if no answer may leave before its change is on disk.
    pub(crate) fn is_strict(&self) -> bool {
        self.journal.fsync() == FsyncRule::Always
    }

    pub(crate) fn figures(&self) -> DataFigures {
        let (log, counts) = (self.journal.figures(), &self.counts);
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DataFigures {
            log_records: log.records,
            log_bytes: log.written_bytes,
            syncs: log.syncs,
            refused_full: log.refused_full,
            failed: log.failed,
            unsynced: self.journal.appended().saturating_sub(self.journal.durable()).min(log.records),
            snapshots: of(&counts.done),
            failed_snapshots: of(&counts.failed),
            last_snapshot_unix_s: of(&counts.unix_s),
            snapshot_bytes: of(&counts.bytes),
        }
    }

    /// Writes a snapshot now, and waits for it.
    pub(crate) fn snapshot(&self) -> Result<(), DataError> {
        self.snapshots.as_ref().map_or(Ok(()), SnapshotThread::snapshot)
    }
}

fn restore_snapshot(disk: &dyn Disk, number: u64, restorer: &mut TableRestorer<'_>) -> Result<(), DataError> {
    let name = snapshot_name(number);
    let file = disk.open(&name).map_err(|why| JournalError::Io { file: name.clone(), why: Arc::new(why) })?;
    let reader = SealedReader::new(file, &name)?;
    let read = move |each: EachRecord<'_>| reader.read(&mut |bytes| each(0, bytes));
    read_ahead(read, |_, bytes| restorer.apply(0, bytes))
}

/// From now on each change of the tables goes to the log.
fn begin_logging(
    journal: &Arc<Journal>,
    tables: &[Arc<ServedTable>],
    restorer: &TableRestorer<'_>,
) -> Result<(), DataError> {
    for (number, table) in tables.iter().enumerate() {
        let id = u16::try_from(number).map_err(|_| DataError::Content("there are too many tables for a log".into()))?;
        journal.append(&[&table_head(id), table.name.as_bytes()])?;
        for key in restorer.evicted(number) {
            journal.append_always(&[&delete_head(id), &key])?;
        }
        table.writer.lock().begin_logging(Box::new(TableLog { journal: Arc::clone(journal), id }));
    }
    Ok(journal.wait(journal.appended())?)
}

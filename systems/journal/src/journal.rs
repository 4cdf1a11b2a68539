//! The log as its users see it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use crate::disk::Disk;
use crate::error::JournalError;
use crate::recover::{COUNT_BITS, EachRecord, recover};
use crate::segment;
use crate::state::{FsyncRule, JournalFigures, JournalShared};
use crate::writer::LogWriter;

/// Settings of a log.
#[derive(Clone, Copy, Debug)]
pub struct JournalOptions {
    /// The moment of syncs.
    pub fsync: FsyncRule,
    /// The length of a file of the log: 64 MiB. A single longer record gets a longer one.
    pub segment_bytes: u64,
    /// Bytes that wait for the disk at most: 256 MiB. Then records are refused.
    pub buffer_bytes: u64,
}

impl Default for JournalOptions {
    fn default() -> JournalOptions {
        JournalOptions { fsync: FsyncRule::default(), segment_bytes: 64 << 20, buffer_bytes: 256 << 20 }
    }
}

/// A log of numbered records. See the crate's example.
///
/// Numbers grow by one from record to record. Each opening begins with a much higher number, so that no number comes
/// again, though records that nobody synced were lost. Dropping the log writes and syncs what was appended.
pub struct Journal {
    disk: Arc<dyn Disk>,
    shared: Arc<JournalShared>,
    options: JournalOptions,
    recovered: u64,
    thread: Option<JoinHandle<()>>,
}

impl Journal {
    /// Opens the log of a directory, or makes one. Calls `each` with all records whose numbers are above `after`, in order.
    /// A torn end is cut off.
    ///
    /// # Errors
    /// If records are damaged or missing, the system refuses, or `each` has an error.
    pub fn open(
        disk: Arc<dyn Disk>,
        after: u64,
        options: JournalOptions,
        each: EachRecord<'_>,
    ) -> Result<Journal, JournalError> {
        let recovered = recover(&*disk, after, each)?;
        let last = recovered.last.max(after);
        let first = ((last.max(recovered.newest) >> COUNT_BITS) + 1) << COUNT_BITS;
        let (file, head) = segment::create(&*disk, first, last, options.segment_bytes)?;
        let mut segments = segment::list(&*disk)?;
        segments.retain(|first| *first <= head.first);
        let shared = Arc::new(JournalShared::new(first, last, segments));
        let writer = LogWriter::new(Arc::clone(&disk), Arc::clone(&shared), options, (file, head), last);
        let thread = thread::Builder::new().name("journal".into()).spawn(move || writer.run());
        let thread = thread.map_err(JournalError::io("thread"))?;
        Ok(Journal { disk, shared, options, recovered: last, thread: Some(thread) })
    }

    /// Adds a record of several parts, and returns its number. It is on disk later.
    ///
    /// # Errors
    /// [`JournalError::Full`], [`JournalError::Behind`] or [`JournalError::Failed`]: nothing was added.
    pub fn append(&self, parts: &[&[u8]]) -> Result<u64, JournalError> {
        self.shared.append(parts, Some(self.options.buffer_bytes))
    }

    /// Adds a record also if the disk is full or slow, and memory has to keep it meanwhile: for few and short ones that take
    /// others back.
    ///
    /// # Errors
    /// [`JournalError::Failed`]: nothing was added.
    pub fn append_always(&self, parts: &[&[u8]]) -> Result<u64, JournalError> {
        self.shared.append(parts, None)
    }

    /// The number of the last record that was appended.
    pub fn appended(&self) -> u64 {
        self.shared.appended()
    }

    /// Records up to this number survive a power cut.
    pub fn durable(&self) -> u64 {
        self.shared.durable()
    }

    /// The number of the last record that was found when the log was opened.
    pub fn recovered(&self) -> u64 {
        self.recovered
    }

    /// The moment of syncs.
    pub fn fsync(&self) -> FsyncRule {
        self.options.fsync
    }

    /// Ready when the record with that number survives a power cut.
    ///
    /// # Errors
    /// [`JournalError::Failed`]: nobody knows whether it does.
    pub fn poll_durable(&self, number: u64, context: &mut Context<'_>) -> Poll<Result<(), JournalError>> {
        self.shared.poll_durable(number, context)
    }

    /// Waits until the record with that number survives a power cut. A sync happens for it at once.
    ///
    /// # Errors
    /// As for [`poll_durable`](Journal::poll_durable).
    pub fn wait(&self, number: u64) -> Result<(), JournalError> {
        self.shared.wait(number)
    }

    /// Begins another file with the next record, so that [`forget`](Journal::forget) can remove the older ones.
    pub fn rotate(&self) {
        self.shared.tell(|pending| pending.wants_rotation = true);
    }

    /// Removes files that only have records up to this number. The caller has them elsewhere.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn forget(&self, number: u64) -> Result<(), JournalError> {
        let mut segments = self.shared.segments.lock();
        while let [first, second, ..] = segments[..] {
            if second > number + 1 {
                break;
            }
            let name = segment::name_of(first);
            self.disk.remove(&name).map_err(JournalError::io(&name))?;
            segments.remove(0);
        }
        self.disk.sync_directory().map_err(JournalError::io("directory"))
    }

    /// Figures since it was opened.
    pub fn figures(&self) -> JournalFigures {
        let (counts, failed) = (&self.shared.counts, self.shared.pending.lock().failed.is_some());
        JournalFigures {
            records: counts.records.load(Ordering::Relaxed),
            written_bytes: counts.written_bytes.load(Ordering::Relaxed),
            syncs: counts.syncs.load(Ordering::Relaxed),
            refused_full: counts.refused_full.load(Ordering::Relaxed),
            segments: self.shared.segments.lock().len() as u64,
            failed: failed.into(),
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.tell(|pending| pending.stops = true);
        self.thread.take().map(JoinHandle::join);
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Journal({} appended, {} durable)", self.appended(), self.durable())
    }
}

//! The state that appenders, waiters and the writing thread share.

use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::{Condvar, Mutex};

use crate::error::JournalError;
use crate::frame;

/// The moment at which records are synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FsyncRule {
    /// At once: those who wait for a record wait for its sync.
    Always,
    /// Once a second.
    #[default]
    EverySecond,
    /// When the system likes to, and when somebody waits.
    Never,
}

impl FromStr for FsyncRule {
    type Err = String;

    /// The words are those of Redis' setting `appendfsync`.
    fn from_str(word: &str) -> Result<FsyncRule, String> {
        match word {
            "always" => Ok(FsyncRule::Always),
            "everysec" => Ok(FsyncRule::EverySecond),
            "no" => Ok(FsyncRule::Never),
            other => Err(format!("{other:?}: there are always, everysec and no")),
        }
    }
}

/// Figures of a log since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalFigures {
    /// Records that were appended.
    pub records: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// Records that were refused because the disk was full.
    pub refused_full: u64,
    /// Files of the log now.
    pub segments: u64,
    /// 1 if the log has failed.
    pub failed: u64,
}

/// Counts behind [`JournalFigures`].
#[derive(Debug, Default)]
pub(crate) struct JournalCounts {
    pub(crate) written_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) refused_full: AtomicU64,
    pub(crate) records: AtomicU64,
}

/// Records that wait for the thread, and what the thread tells.
pub(crate) struct UnwrittenRecords {
    /// A frame with room for its header.
    pub(crate) frame: Vec<u8>,
    pub(crate) count: u32,
    /// The number of the next record.
    pub(crate) next: u64,
    /// Bytes that are certainly there on disk; counts only when it is full.
    pub(crate) room: u64,
    pub(crate) is_full: bool,
    pub(crate) failed: Option<String>,
    /// The thread waits until it is notified.
    pub(crate) is_asleep: bool,
    pub(crate) wants_sync: bool,
    pub(crate) wants_rotation: bool,
    pub(crate) stops: bool,
}

impl UnwrittenRecords {
    /// Bytes of records that wait.
    pub(crate) fn bytes(&self) -> u64 {
        (self.frame.len() - frame::FRAME_BYTES) as u64
    }

    fn refusal(&self, needed: u64, most: Option<u64>) -> Option<JournalError> {
        if let Some(why) = &self.failed {
            return Some(JournalError::Failed(why.clone()));
        }
        let most = most?;
        if self.is_full && self.bytes() + needed > self.room {
            return Some(JournalError::Full);
        }
        // A single long record is never refused for its length.
        (self.count > 0 && self.bytes() + needed > most).then(|| JournalError::Behind(self.bytes()))
    }
}

/// Everything that threads share.
pub(crate) struct JournalShared {
    pub(crate) pending: Mutex<UnwrittenRecords>,
    /// Rings when `pending` has something for the thread.
    pub(crate) work: Condvar,
    pub(crate) durable: AtomicU64,
    appended: AtomicU64,
    waiters: Mutex<Vec<(u64, Waker)>>,
    synced: Condvar,
    pub(crate) counts: JournalCounts,
    pub(crate) segments: Mutex<Vec<u64>>,
}

impl JournalShared {
    pub(crate) fn new(next: u64, durable: u64, segments: Vec<u64>) -> JournalShared {
        let mut empty = Vec::new();
        frame::begin(&mut empty);
        let pending = UnwrittenRecords {
            frame: empty,
            count: 0,
            next,
            room: 0,
            is_full: false,
            failed: None,
            is_asleep: false,
            wants_sync: false,
            wants_rotation: false,
            stops: false,
        };
        JournalShared {
            pending: Mutex::new(pending),
            work: Condvar::new(),
            durable: AtomicU64::new(durable),
            appended: AtomicU64::new(durable),
            waiters: Mutex::default(),
            synced: Condvar::new(),
            counts: JournalCounts::default(),
            segments: Mutex::new(segments),
        }
    }

    /// Adds a record; returns its number. `most`: bytes that may wait; `None` refuses nothing while the log works.
    pub(crate) fn append(&self, parts: &[&[u8]], most: Option<u64>) -> Result<u64, JournalError> {
        let needed = parts.iter().map(|part| part.len() as u64).sum::<u64>() + 4;
        let mut pending = self.pending.lock();
        if let Some(refusal) = pending.refusal(needed, most) {
            if matches!(refusal, JournalError::Full) {
                self.counts.refused_full.fetch_add(1, Ordering::Relaxed);
            }
            return Err(refusal);
        }
        frame::add(&mut pending.frame, parts);
        let number = pending.next;
        pending.next += 1;
        pending.count += 1;
        self.appended.store(number, Ordering::Release);
        self.counts.records.fetch_add(1, Ordering::Relaxed);
        if pending.is_asleep {
            pending.is_asleep = false;
            self.work.notify_one();
        }
        Ok(number)
    }

    pub(crate) fn appended(&self) -> u64 {
        self.appended.load(Ordering::Acquire)
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Tells the thread something.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut UnwrittenRecords)) {
        let mut pending = self.pending.lock();
        change(&mut pending);
        pending.is_asleep = false;
        self.work.notify_one();
    }

    /// Ready when the record is durable, or never will be.
    pub(crate) fn poll_durable(&self, number: u64, context: &mut Context<'_>) -> Poll<Result<(), JournalError>> {
        if self.durable() >= number {
            return Poll::Ready(Ok(()));
        }
        let mut waiters = self.waiters.lock();
        if let Some(outcome) = self.outcome(number) {
            return Poll::Ready(outcome);
        }
        waiters.push((number, context.waker().clone()));
        Poll::Pending
    }

    /// Waits in this thread until the record is durable.
    pub(crate) fn wait(&self, number: u64) -> Result<(), JournalError> {
        if self.durable() >= number {
            return Ok(());
        }
        self.tell(|pending| pending.wants_sync = true);
        let mut waiters = self.waiters.lock();
        loop {
            if let Some(outcome) = self.outcome(number) {
                return outcome;
            }
            self.synced.wait(&mut waiters);
        }
    }

    fn outcome(&self, number: u64) -> Option<Result<(), JournalError>> {
        if self.durable() >= number {
            return Some(Ok(()));
        }
        self.pending.lock().failed.clone().map(|why| Err(JournalError::Failed(why)))
    }

    /// Records up to this one are durable.
    pub(crate) fn set_durable(&self, number: u64) {
        // Waiters look at the number with their lock held, so none misses it.
        let mut waiters = self.waiters.lock();
        self.durable.store(number, Ordering::Release);
        let ready: Vec<Waker> =
            waiters.extract_if(.., |(wanted, _)| *wanted <= number).map(|(_, waker)| waker).collect();
        self.synced.notify_all();
        drop(waiters);
        ready.into_iter().for_each(Waker::wake);
    }

    /// No record will be durable any more.
    pub(crate) fn fail(&self, why: &JournalError) {
        log::error!("the log takes no more changes: {why}");
        let mut waiters = self.waiters.lock();
        self.pending.lock().failed.get_or_insert_with(|| why.to_string());
        let all = std::mem::take(&mut *waiters);
        self.synced.notify_all();
        drop(waiters);
        all.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

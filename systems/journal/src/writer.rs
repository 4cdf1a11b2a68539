//! The thread that writes and syncs.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use crate::disk::{Disk, DiskFile};
use crate::error::JournalError;
use crate::frame;
use crate::journal::JournalOptions;
use crate::segment::{self, SEGMENT_BYTES, SegmentHead};
use crate::state::{FsyncRule, JournalShared, UnwrittenRecords};

/// The time between two syncs with [`FsyncRule::EverySecond`].
const SECOND: Duration = Duration::from_secs(1);
/// The pause between two looks for records that nobody waits for: appenders need not wake the thread.
const PACE: Duration = Duration::from_millis(1);
/// So many looks without a record, and the thread sleeps until it is woken.
const IDLE_LOOKS: u32 = 50;
/// The pause in which more records may come that share a sync, and the number of such pauses. (PostgreSQL's `commit_delay`.)
const GATHERING: Duration = Duration::from_micros(20);
const MOST_GATHERING: u32 = 4;
/// The pause before a full disk is asked again.
const FULL_PAUSE: Duration = Duration::from_millis(100);

/// The thread's own state.
pub(crate) struct LogWriter {
    disk: Arc<dyn Disk>,
    shared: Arc<JournalShared>,
    options: JournalOptions,
    file: Box<dyn DiskFile>,
    head: SegmentHead,
    /// Where the next frame goes, and the room of the file.
    at: u64,
    len_bytes: u64,
    /// The number of the last record that was written.
    written: u64,
    synced_at: Instant,
    idle: u32,
    /// Records that one sync served the last time.
    last_count: u64,
    /// The frame that the thread writes; appenders fill another one meanwhile.
    frame: Vec<u8>,
}

/// Work that the thread took from the appenders.
struct TakenWork {
    count: u32,
    next: u64,
    wants_sync: bool,
    wants_rotation: bool,
    stops: bool,
}

impl LogWriter {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        shared: Arc<JournalShared>,
        options: JournalOptions,
        (file, head): (Box<dyn DiskFile>, SegmentHead),
        written: u64,
    ) -> LogWriter {
        let (at, len_bytes) = (SEGMENT_BYTES as u64, options.segment_bytes);
        let synced_at = Instant::now();
        LogWriter {
            disk,
            shared,
            options,
            file,
            head,
            at,
            len_bytes,
            written,
            synced_at,
            idle: 0,
            last_count: 0,
            frame: Vec::new(),
        }
    }

    /// Runs until the log is dropped, or has failed.
    pub(crate) fn run(mut self) {
        loop {
            let work = self.take();
            if let Err(error) = self.write(&work) {
                return self.shared.fail(&error);
            }
            if work.stops && self.shared.pending.lock().count == 0 {
                // Then damage of the last record cannot be taken for a torn one.
                return self.close().unwrap_or_else(|error| self.shared.fail(&error));
            }
        }
    }

    /// Waits for records, or for the time of a sync.
    fn take(&mut self) -> TakenWork {
        frame::begin(&mut self.frame);
        let shared = Arc::clone(&self.shared);
        let mut pending = shared.pending.lock();
        let is_due = |writer: &LogWriter| {
            writer.options.fsync == FsyncRule::EverySecond
                && writer.written > writer.shared.durable()
                && writer.synced_at.elapsed() >= SECOND
        };
        while pending.count == 0 && !pending.stops && !pending.wants_sync && !pending.wants_rotation && !is_due(self) {
            let is_waited_for = self.options.fsync == FsyncRule::Always;
            self.idle += 1;
            pending.is_asleep = is_waited_for || self.idle > IDLE_LOOKS;
            match (pending.is_asleep, self.written > shared.durable()) {
                (true, false) => shared.work.wait(&mut pending),
                (true, true) => drop(shared.work.wait_for(&mut pending, SECOND / 4)),
                (false, _) => drop(shared.work.wait_for(&mut pending, PACE)),
            }
        }
        pending.is_asleep = false;
        if pending.count > 0 {
            self.idle = 0;
        }
        if self.options.fsync == FsyncRule::Always && !pending.stops {
            self.gather(&shared, &mut pending);
        }
        std::mem::swap(&mut pending.frame, &mut self.frame);
        TakenWork {
            count: std::mem::take(&mut pending.count),
            next: pending.next,
            wants_sync: std::mem::take(&mut pending.wants_sync),
            wants_rotation: std::mem::take(&mut pending.wants_rotation),
            stops: pending.stops,
        }
    }

    /// Waits for more records if several came together the last time, until they pause: then they share the sync.
    fn gather(&mut self, shared: &JournalShared, pending: &mut MutexGuard<'_, UnwrittenRecords>) {
        for _ in 0..MOST_GATHERING {
            let before = pending.count;
            if u64::from(before) >= self.last_count || self.last_count < 2 {
                break;
            }
            let _ = shared.work.wait_for(pending, GATHERING);
            if pending.count == before {
                break;
            }
        }
        if pending.count > 0 {
            self.last_count = u64::from(pending.count);
        }
    }

    fn write(&mut self, work: &TakenWork) -> Result<(), JournalError> {
        if work.wants_rotation && self.at > SEGMENT_BYTES as u64 {
            self.begin_segment(work.next - u64::from(work.count))?;
        }
        if work.count > 0 {
            self.write_frame(work)?;
        }
        let rule = self.options.fsync;
        let is_due = rule == FsyncRule::EverySecond && self.synced_at.elapsed() >= SECOND;
        if rule == FsyncRule::Always || is_due || work.wants_sync || work.stops {
            self.sync()?;
        }
        // Nobody waits for the others: they come together.
        if rule != FsyncRule::Always && !work.stops && work.count > 0 {
            std::thread::sleep(PACE);
        }
        Ok(())
    }

    fn write_frame(&mut self, work: &TakenWork) -> Result<(), JournalError> {
        let first = work.next - u64::from(work.count);
        let needed = self.frame.len() as u64 + 8;
        if self.at + needed > self.len_bytes && self.at > SEGMENT_BYTES as u64 {
            self.begin_segment(first)?;
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame::finish(&mut frame, (first, self.shared.durable()), work.count, self.head.salt);
        let name = segment::name_of(self.head.first);
        self.with_room(&name, |writer| writer.file.write_at(writer.at, &frame))?;
        self.at += frame.len() as u64;
        self.written = work.next - 1;
        self.shared.counts.written_bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
        // A buffer that one long record has made long is not kept.
        if frame.capacity() < 16 << 20 {
            self.frame = frame;
        }
        Ok(())
    }

    /// Ends the file, and begins another one.
    fn begin_segment(&mut self, first: u64) -> Result<(), JournalError> {
        self.sync()?;
        let name = segment::name_of(self.head.first);
        // The room behind the last frame goes back, whatever the outcome.
        let _ = self.file.set_len(self.at);
        self.file.sync().map_err(JournalError::io(&name))?;
        let wanted = self.options.segment_bytes.max((SEGMENT_BYTES + self.frame.len() + 8) as u64);
        let mut made = None;
        let next = segment::name_of(first);
        self.with_room(&next, |writer| {
            made = Some(segment::create(&*writer.disk, first, writer.written, wanted).map_err(io_of)?);
            Ok(())
        })?;
        if let Some((file, head)) = made {
            (self.file, self.head, self.at, self.len_bytes) = (file, head, SEGMENT_BYTES as u64, wanted);
            self.shared.segments.lock().push(first);
        }
        Ok(())
    }

    /// Does something again and again while the disk is full, and has new records refused meanwhile.
    fn with_room(
        &mut self,
        name: &str,
        mut act: impl FnMut(&mut LogWriter) -> std::io::Result<()>,
    ) -> Result<(), JournalError> {
        loop {
            match act(self) {
                Ok(()) => {
                    let mut pending = self.shared.pending.lock();
                    if pending.is_full {
                        log::warn!("the disk has room again: the log takes changes");
                        pending.is_full = false;
                    }
                    return Ok(());
                }
                Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
                    let mut pending = self.shared.pending.lock();
                    if !pending.is_full {
                        log::error!("{name}: {error}: the log refuses changes until there is room");
                        pending.is_full = true;
                    }
                    if pending.stops {
                        return Err(JournalError::io(name)(error));
                    }
                    pending.is_asleep = true;
                    self.shared.work.wait_for(&mut pending, FULL_PAUSE);
                }
                Err(error) => return Err(JournalError::io(name)(error)),
            }
        }
    }

    /// One sync for all that was written. Its failure is never repeated: the system may have dropped the pages, and a second
    /// sync would then succeed without them.
    fn sync(&mut self) -> Result<(), JournalError> {
        self.synced_at = Instant::now();
        if self.written == self.shared.durable() {
            return Ok(());
        }
        let name = segment::name_of(self.head.first);
        self.file.sync().map_err(JournalError::io(&name))?;
        self.shared.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.shared.set_durable(self.written);
        Ok(())
    }

    /// Adds a frame without records, which says that all before it was durable.
    fn close(&mut self) -> Result<(), JournalError> {
        frame::begin(&mut self.frame);
        let next = self.written.max(self.head.first - 1) + 1;
        frame::finish(&mut self.frame, (next, self.written), 0, self.head.salt);
        let name = segment::name_of(self.head.first);
        let done = self.file.write_at(self.at, &self.frame).and_then(|()| {
            self.at += self.frame.len() as u64;
            let _ = self.file.set_len(self.at);
            self.file.sync()
        });
        match done {
            // The log is whole without it.
            Err(error) if error.kind() == ErrorKind::StorageFull => Ok(()),
            other => other.map_err(JournalError::io(&name)),
        }
    }
}

fn io_of(error: JournalError) -> std::io::Error {
    match error {
        JournalError::Io { why, .. } => std::io::Error::new(why.kind(), why.to_string()),
        other => std::io::Error::other(other),
    }
}

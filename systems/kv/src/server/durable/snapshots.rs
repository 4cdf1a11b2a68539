//! Snapshots, written by a thread of their own while the tables change.
//!
//! The thread notes the number of the last change, and then walks over the keys, some at a time. The writer's lock is held for
//! those only. A key that changes meanwhile may have its old value in the snapshot or its new one: the log has all changes
//! after the noted number, and restoring executes them again. A snapshot counts when all changes are on disk that it may have.
//! A fork, as Redis does it, is no choice: the memory is registered, and the process has threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use journal::{Disk, Journal, JournalError, SealedWriter};

use crate::clock::now_ns;
use crate::protocol::split_framed;
use crate::server::durable::DataError;
use crate::server::durable::directory::{SnapshotCounts, snapshot_name, tidy};
use crate::server::durable::record::{bound, put_head, table_head};
use crate::server::durable::wall::ClockPair;
use crate::server::served::ServedTable;

/// Keys that one step visits.
const KEYS_AT_ONCE: usize = 64;
/// Bytes of values that one step copies with the writer's lock held, if it is not a single value's piece.
const STEP_BYTES: usize = 256 << 10;
/// The time between two looks at the length of the log.
const LOOK: Duration = Duration::from_secs(1);

type Asked = Sender<Result<(), DataError>>;

/// The thread. Dropping the value ends it.
pub(crate) struct SnapshotThread {
    asked: Option<Sender<Asked>>,
    thread: Option<JoinHandle<()>>,
}

struct SnapshotWork {
    disk: Arc<dyn Disk>,
    journal: Arc<Journal>,
    tables: Vec<Arc<ServedTable>>,
    counts: Arc<SnapshotCounts>,
    /// The log may grow by so many bytes at least.
    least_bytes: u64,
    /// Bytes of the log at the last snapshot.
    seen_bytes: u64,
}

impl SnapshotThread {
    pub(crate) fn start(
        disk: Arc<dyn Disk>,
        journal: Arc<Journal>,
        tables: Vec<Arc<ServedTable>>,
        counts: Arc<SnapshotCounts>,
        least_bytes: u64,
    ) -> Result<SnapshotThread, DataError> {
        let (asked, asks) = channel();
        let work = SnapshotWork { disk, journal, tables, counts, least_bytes, seen_bytes: 0 };
        let thread = thread::Builder::new().name("kv-snapshot".into()).spawn(move || work.run(&asks));
        let thread = thread.map_err(|error| DataError::Content(format!("no thread for snapshots: {error}")))?;
        Ok(SnapshotThread { asked: Some(asked), thread: Some(thread) })
    }

    /// Writes a snapshot now, and waits for it.
    pub(crate) fn snapshot(&self) -> Result<(), DataError> {
        let (sender, receiver) = channel();
        let ended = || DataError::Content("the thread for snapshots has ended".into());
        self.asked.as_ref().and_then(|asked| asked.send(sender).ok()).ok_or_else(ended)?;
        receiver.recv().map_err(|_| ended())?
    }
}

impl Drop for SnapshotThread {
    fn drop(&mut self) {
        self.asked = None;
        self.thread.take().map(JoinHandle::join);
    }
}

impl SnapshotWork {
    fn run(mut self, asks: &Receiver<Asked>) {
        loop {
            match asks.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) if self.is_due() => drop(self.snapshot()),
                Err(RecvTimeoutError::Timeout) => {}
                // Nobody may wait for the answer any more.
                Ok(answer) => drop(answer.send(self.snapshot())),
            }
        }
    }

    fn is_due(&self) -> bool {
        let log = self.journal.figures();
        let grown = log.written_bytes - self.seen_bytes;
        log.failed == 0 && grown >= self.least_bytes.max(self.counts.bytes.load(Ordering::Relaxed))
    }

    fn snapshot(&mut self) -> Result<(), DataError> {
        self.seen_bytes = self.journal.figures().written_bytes;
        let written = self.write();
        match &written {
            Ok(bytes) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                self.counts.bytes.store(*bytes, Ordering::Relaxed);
                self.counts.unix_s.store(now.as_secs(), Ordering::Relaxed);
                self.counts.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                self.counts.failed.fetch_add(1, Ordering::Relaxed);
                log::error!("no snapshot, so the log goes on growing: {error}");
            }
        }
        written.map(drop)
    }

    fn write(&self) -> Result<u64, DataError> {
        let from = self.journal.appended();
        self.journal.rotate();
        let (name, torn) = (snapshot_name(from), format!("{}.tmp", snapshot_name(from)));
        let io = |name: &str, why| JournalError::Io { file: name.into(), why: Arc::new(why) };
        let file = self.disk.create(&torn).map_err(|why| io(&torn, why))?;
        let written = self.fill(SealedWriter::new(file, &torn)?, from);
        let bytes = written.inspect_err(|_| drop(self.disk.remove(&torn)))?;
        self.disk.rename(&torn, &name).map_err(|why| io(&name, why))?;
        self.disk.sync_directory().map_err(|why| io(&name, why))?;
        tidy(&*self.disk, from)?;
        self.journal.forget(from)?;
        Ok(bytes)
    }

    fn fill(&self, mut out: SealedWriter, from: u64) -> Result<u64, DataError> {
        out.append(&[&bound(true, from)])?;
        for (id, table) in self.tables.iter().enumerate() {
            out.append(&[&table_head(id as u16), table.name.as_bytes()])?;
            walk(id as u16, table, &mut out)?;
        }
        // Changes that the walk may have seen are on disk before the snapshot counts.
        let until = self.journal.appended();
        self.journal.wait(until)?;
        out.append(&[&bound(false, until)])?;
        Ok(out.finish()?)
    }
}

/// Writes all keys of a table.
fn walk(id: u16, table: &ServedTable, out: &mut SealedWriter) -> Result<(), DataError> {
    let (mut cursor, mut keys, clocks) = (0, Vec::new(), ClockPair::now());
    loop {
        keys.clear();
        cursor = table.writer.lock().scan(cursor, KEYS_AT_ONCE, b"", now_ns(), &mut keys);
        let mut rest = &keys[..];
        while !rest.is_empty() {
            rest = copy_some((id, clocks), table, rest, out)?;
        }
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// Writes the first of these keys, as many as one step may. Returns the others.
fn copy_some<'a>(
    (id, clocks): (u16, ClockPair),
    table: &ServedTable,
    mut keys: &'a [u8],
    out: &mut SealedWriter,
) -> Result<&'a [u8], DataError> {
    // Values that were copied, with the places of their keys. Writing comes after the lock.
    let (mut values, mut copied, mut long) = (Vec::new(), Vec::new(), None);
    let mut writer = table.writer.lock();
    while let Some((key, rest)) = split_framed(keys).filter(|_| values.len() < STEP_BYTES && long.is_none()) {
        keys = rest;
        let start = values.len();
        let found = writer.peek(key, 0, &mut values).map_err(broken)?;
        // A key that has gone meanwhile went by a change in the log.
        let Some(found) = found else { continue };
        match values.len() - start == found.value_bytes as usize {
            true => copied.push((key, found.stamp, found.expires_ns, start..values.len())),
            false => long = Some((key, found, values.split_off(start))),
        }
    }
    drop(writer);
    for (key, stamp, expires_ns, range) in copied {
        out.append(&[&put_head(id, clocks.at_unix(expires_ns), stamp, key), key, &values[range]])?;
    }
    if let Some((key, found, mut value)) = long {
        while (value.len() as u64) < found.value_bytes {
            let part = table.writer.lock().peek(key, value.len() as u64, &mut value).map_err(broken)?;
            if part.is_none_or(|part| part.stamp != found.stamp) {
                // It changed, so the log has it.
                return Ok(keys);
            }
        }
        out.append(&[&put_head(id, clocks.at_unix(found.expires_ns), found.stamp, key), key, &value])?;
    }
    Ok(keys)
}

fn broken(status: longarm_rpc::Status) -> DataError {
    DataError::Content(status.message().into())
}

//! Settings, figures and errors of tables on disk.

use std::path::PathBuf;

use journal::{FsyncRule, JournalError};

/// Where and how a server keeps its tables on disk.
#[derive(Clone, Debug)]
pub struct DataOptions {
    /// The directory: one server at a time.
    pub path: PathBuf,
    /// When changes are synced. With [`FsyncRule::Always`] no answer leaves before.
    pub fsync: FsyncRule,
    /// A snapshot begins when the log has grown by so many bytes, and by the length of the last snapshot: 64 MiB.
    pub snapshot_bytes: u64,
    /// The length of a file of the log: 64 MiB.
    pub segment_bytes: u64,
}

impl DataOptions {
    /// Tables in this directory, synced once a second.
    pub fn new(path: impl Into<PathBuf>) -> DataOptions {
        let (snapshot_bytes, segment_bytes) = (64 << 20, 64 << 20);
        DataOptions { path: path.into(), fsync: FsyncRule::default(), snapshot_bytes, segment_bytes }
    }
}

/// The reason why tables cannot be read from disk, or written there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file is damaged, or the system refuses.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The files are whole, and say something that this server cannot do.
    #[error("{0}")]
    Content(String),
}

/// Figures of a directory since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DataFigures {
    /// Changes that went to the log.
    pub log_records: u64,
    /// Bytes that were written to the log.
    pub log_bytes: u64,
    /// Syncs of the log.
    pub syncs: u64,
    /// Changes that were refused because the disk was full.
    pub refused_full: u64,
    /// 1 if a write or a sync failed: then the server takes no changes until it is started again.
    pub failed: u64,
    /// Changes that are not on disk yet.
    pub unsynced: u64,
    /// Snapshots that were written, and those that failed.
    pub snapshots: u64,
    /// Snapshots that failed: the log goes on growing.
    pub failed_snapshots: u64,
    /// When the last snapshot was done, in seconds since 1970; zero without one.
    pub last_snapshot_unix_s: u64,
    /// The length of the last snapshot in bytes.
    pub snapshot_bytes: u64,
}
